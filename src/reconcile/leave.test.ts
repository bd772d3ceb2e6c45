import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../core/errors.ts'
import { limits } from '../config/limits.ts'
import { sleepStage } from '../../test/sleep-stage.ts'
import { offerVm, withdrawOffer } from '../commands/migration/offer-vm.ts'
import { afterEvent } from '../core/migration/departure.ts'
import type { TestContext } from 'node:test'
import type { ArrivalId, DepartureEvent } from '../core/migration/departure.ts'
import type { MigrationId, MigrationMode, NodeName } from '../core/migration/offer.ts'

const arrival = 'a' as ArrivalId
/** A wake of a guest with much memory. */
const SLOW_WAKE_MS = 10_000
const COPY: DepartureEvent = { kind: 'copy', arrival }
const HAND_OVER: DepartureEvent = { kind: 'hand_over', arrival, lived: 'running' }
const SAVED: DepartureEvent = { kind: 'guest_saved', lastRound: 1 }
const RELEASE: DepartureEvent = { kind: 'release', arrival, lastRound: 1 }

/** A guest that runs and is offered to another host. */
async function leaveStage(t: TestContext, mode: MigrationMode = 'live') {
  const stage = await sleepStage(t)
  const { context, clock, store, id, vm, idle, host } = stage
  const migration = { id: 'move-7' as MigrationId, node: 'node-2' as NodeName, mode }
  assert.ok(offerVm(context, id, { ...migration, expiresAtMs: clock.now() + 3_600_000 }).ok)
  await idle()
  return {
    ...stage,
    /** Moves the departure on, as a destination does, and lets the worker follow. */
    happens: async (...events: readonly DepartureEvent[]): Promise<void> => {
      for (const event of events) {
        const after = afterEvent(vm().departure ?? assert.fail('nothing is offered'), event, clock.now())
        assert.ok(after.ok, after.ok ? '' : after.error)
        store.departures.set(id, after.value, clock.now())
        context.poke(id, event.kind)
        await idle()
      }
    },
    hasUnit: () => host.fakeUnits.stateOf(id).kind !== 'absent',
  }
}

test('an offered guest runs on without sleeping, and its generation waits for the destination', async (t) => {
  const { later, shown, vm } = await leaveStage(t)
  await later(3_000_000)
  assert.equal(shown(), 'running')
  assert.equal(vm().observed.waitingFor, 'the destination')
  assert.deepEqual(vm().generations, { desired: 2, observed: 1 })
})

test('a guest that is handed over is saved in spite of traffic, and no packet wakes it', async (t) => {
  const { happens, receive, idle, shown, hasUnit, given } = await leaveStage(t)
  receive('before')
  await happens(COPY, HAND_OVER)
  assert.deepEqual([shown(), hasUnit()], ['sleeping', false])
  receive('meanwhile')
  await happens(SAVED)
  receive('later')
  await idle()
  assert.deepEqual([shown(), hasUnit(), given()], ['sleeping', false, ['before']])
})

test('a guest whose handover is withdrawn continues with its memory and every packet', async (t) => {
  const { context, id, happens, receive, idle, later, shown, goesOn, given, vm } = await leaveStage(t)
  await happens(COPY, HAND_OVER)
  receive('first')
  await happens(SAVED)
  await later(limits.handoverMsMax + SLOW_WAKE_MS)
  receive('meanwhile')
  await idle()
  assert.ok(withdrawOffer(context, id).ok)
  await idle()
  assert.equal(shown(), 'running')
  assert.ok(goesOn())
  assert.deepEqual(given(), ['first', 'meanwhile'])
  assert.deepEqual(vm().generations, { desired: 3, observed: 3 })
})

test('a guest that was released leaves nothing on this host but its record', async (t) => {
  const { happens, receive, later, shown, hasUnit, vm, host, id, store } = await leaveStage(t)
  await happens(COPY, HAND_OVER, SAVED)
  const states: string[] = []
  store.onVmChange(() => states.push(shown()))
  await happens(RELEASE)
  receive('too late')
  await later(60_000)
  assert.deepEqual([shown(), hasUnit()], ['migrated', false])
  assert.deepEqual(
    new Set(states.slice(states.indexOf('migrated'))),
    new Set(['migrated']),
    'also while the rest is removed',
  )
  assert.deepEqual(vm().generations, { desired: 2, observed: 2 })
  assert.deepEqual(host.savedFiles.paths(), [])
  assert.deepEqual(await host.storage.list(), [])
  assert.equal((await host.consoles.inspect(id)).kind, 'absent')
})

test('a guest that was released is at its new host, also if what it left here cannot be removed', async (t) => {
  const { happens, later, shown, host, store } = await leaveStage(t)
  await happens(COPY, HAND_OVER, SAVED)
  host.storage.failNext('remove', new HostFault('storage_failed', 'busy', { retry: 'backoff' }))
  const states: string[] = []
  store.onVmChange(() => states.push(shown()))
  await happens(RELEASE)
  await later(120_000)
  const after = new Set(states.slice(states.indexOf('migrated')))
  assert.deepEqual(after, new Set(['migrated', 'migrated storage_failed']))
  assert.deepEqual(await host.storage.list(), [])
})

test('a cold migration ends the guest and saves nothing', async (t) => {
  const { happens, shown, hasUnit, host } = await leaveStage(t, 'cold')
  await happens(COPY, HAND_OVER)
  assert.deepEqual([shown(), hasUnit()], ['stopped', false])
  assert.deepEqual(host.savedFiles.paths(), [])
})

/** A guest whose handover the daemon began: it ended with the guest saved, and nothing published. */
async function halfSavedStage(t: TestContext) {
  const stage = await leaveStage(t)
  const { host, id, store, vm, clock, stop } = stage
  await stage.happens(COPY)
  return {
    ...stage,
    killedInSave: async (): Promise<void> => {
      await stop()
      const { departure } = vm()
      assert.ok(departure !== undefined)
      const after = afterEvent(departure, HAND_OVER, clock.now())
      assert.ok(after.ok)
      store.departures.set(id, after.value, clock.now())
      const { signal } = new AbortController()
      await host.monitor.ensurePaused(id, signal)
      await host.savedStates.ensureMemoryFile(id, vm().host.userId)
      const path = host.savedStates.paths(id).writing
      await host.monitor.save({ id, path, memoryMib: 256 }, signal)
    },
  }
}

test('a guest whose save for the handover ended with the daemon is saved by the next one without a fault', async (t) => {
  const { killedInSave, start, idle, shown, hasUnit, host } = await halfSavedStage(t)
  await killedInSave()
  await start()
  await idle()
  assert.deepEqual([shown(), hasUnit(), host.monitor.relived], ['sleeping', false, []])
})
