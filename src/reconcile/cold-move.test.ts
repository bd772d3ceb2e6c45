import assert from 'node:assert/strict'
import { test } from 'node:test'
import { got, leaveStage } from '../../test/leave-stage.ts'
import { withdrawOffer } from '../commands/migration/offer-vm.ts'
import { HostFault } from '../core/errors.ts'
import type { TestContext } from 'node:test'

/** Longer than the first back-off, and shorter than a handover. */
const SOON_MS = 10_000

/** A guest that moves without its memory, and is deleted when it ends by itself. */
async function coldStage(t: TestContext) {
  const stage = await leaveStage(t, 'cold')
  const { store, id, vm, clock, context, idle, host, source, move, settle, stop, start, turns, later } = stage
  const exit = { restartPolicy: 'never', deleteOnExit: true } as const
  store.vms.changeDesired(id, {
    desired: { ...vm().desired, exit },
    operationId: vm().operationId,
    nowMs: clock.now(),
  })
  context.poke(id, 'exit policy')
  await idle()
  await got(stage.round(1))
  return {
    ...stage,
    /** Begins the handover, whose answer may be lost. */
    beginHandover: async (): Promise<void> => {
      stage.handOver().catch(() => {})
      await settle()
    },
    /** Stops the daemon while systemd ends the unit, and starts the next one. */
    restartInStop: async (): Promise<void> => {
      const end = host.units.ensureStopped.bind(host.units)
      const mock = t.mock.method(host.units, 'ensureStopped', async (...args: Parameters<typeof end>) => {
        await end(...args)
        const aborted = Promise.withResolvers<never>()
        args[1].addEventListener('abort', () => aborted.reject(args[1].reason as Error))
        return aborted.promise
      })
      stage.handOver().catch(() => {})
      await settle()
      const stopping = stop()
      await turns()
      await stopping
      mock.mock.restore()
      await start()
      source().start()
      await settle()
    },
    abort: async (): Promise<void> => {
      await got(source().abort(move))
      await settle()
      await later(SOON_MS)
    },
    isHandedOver: async (): Promise<boolean> => {
      await later(SOON_MS)
      await settle()
      return vm().departure?.stage === 'handed_over' && vm().observed.lastExit === undefined
    },
  }
}

const lost = (): HostFault => new HostFault('systemd_unavailable', 'the bus was closed')

test('a guest that ends for its move has not exited, if the answer of systemd is lost', async (t) => {
  const { host, beginHandover, isHandedOver, abort, shown } = await coldStage(t)
  host.fakeUnits.failNext('ensureStopped', lost(), 'after')
  await beginHandover()
  assert.ok(await isHandedOver())
  await abort()
  assert.equal(shown(), 'running')
})

test('a guest that ends for its move has not exited, if the daemon stops meanwhile', async (t) => {
  const { restartInStop, isHandedOver, abort, shown } = await coldStage(t)
  await restartInStop()
  assert.ok(await isHandedOver())
  await abort()
  assert.equal(shown(), 'running')
})

test('a guest that ended for its move starts again if the offer is withdrawn before another look', async (t) => {
  const { host, beginHandover, context, id, later, shown } = await coldStage(t)
  host.fakeUnits.failNext('ensureStopped', lost(), 'after')
  await beginHandover()
  assert.ok(withdrawOffer(context, id).ok)
  await later(SOON_MS)
  assert.equal(shown(), 'running')
})

test('a guest that did not end for its move runs on, and its own end counts later', async (t) => {
  const { host, beginHandover, context, id, idle, later, shown, goesOn, vm, store } = await coldStage(t)
  host.fakeUnits.failNext('ensureStopped', lost(), 'before')
  await beginHandover()
  assert.equal(vm().launch?.endsQuietly, true)
  assert.ok(withdrawOffer(context, id).ok)
  await idle()
  assert.equal(shown(), 'running')
  assert.ok(goesOn())
  assert.equal(vm().launch?.endsQuietly, undefined)
  host.fakeUnits.exit(id, 0)
  await later(SOON_MS)
  assert.equal(store.vms.get(id), undefined)
})

test('a guest that ended by itself before its handover stays ended when it is given back', async (t) => {
  const { host, beginHandover, isHandedOver, id, vm, source, move, settle, shown } = await coldStage(t)
  host.fakeUnits.exit(id, 0)
  await beginHandover()
  assert.equal(await isHandedOver(), false)
  assert.equal(vm().departure?.stage, 'handed_over')
  assert.equal(vm().observed.lastExit?.cause, 'unknown')
  assert.equal((await got(source().manifest(move))).vm.ended, true)
  await settle()
  assert.equal(shown(), 'stopped')
})
