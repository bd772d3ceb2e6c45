import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleepStage } from '../../test/sleep-stage.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { rebootVm, setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { DAY_MS } from '../lib/time-units.ts'
import { planFor } from './explain-vm.ts'
import type { TestContext } from 'node:test'

const GRACE = { graceSeconds: 30 }
const GRACE_MS = 30_000

/** A guest that runs. One with an agent ends when it is asked to. */
async function running(t: TestContext, { hasAgent }: { readonly hasAgent: boolean }) {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  if (hasAgent) stage.host.monitor.agents.add(stage.id)
  return { ...stage, lastStop: () => stage.vm().observed.lastStop?.kind }
}

test('a guest with an agent ends when it is asked, and the stop is reached at once', async (t) => {
  const { context, host, id, vm, shown, idle, lastStop } = await running(t, { hasAgent: true })
  setPower(context, id, 'stopped', GRACE)
  await idle()
  assert.deepEqual([shown(), lastStop(), host.ended], ['stopped', 'graceful', []])
  assert.deepEqual(vm().generations, { desired: 2, observed: 2 })
  assert.deepEqual(vm().stops, { accepted: 2, carriedOut: 2 })
})

test('a guest that does not end is asked again, and stopped hard when its time is over', async (t) => {
  const { context, host, id, vm, shown, idle, later, lastStop } = await running(t, { hasAgent: false })
  setPower(context, id, 'stopped', GRACE)
  await idle()
  assert.deepEqual([shown(), vm().observed.waitingFor], ['stopping', 'the guest to end'])
  for (const ms of [
    limits.askToEndAgainMs,
    limits.askToEndAgainMs,
    GRACE_MS - 2 * limits.askToEndAgainMs - 1,
  ])
    await later(ms)
  assert.deepEqual([shown(), host.monitor.askedToEnd.length], ['stopping', 3])
  assert.deepEqual(vm().generations, { desired: 2, observed: 1 })
  await later(1)
  assert.deepEqual([shown(), lastStop(), host.ended], ['stopped', 'deadline', [id]])
})

test('a request without grace stops a guest that still has time', async (t) => {
  const { context, host, id, shown, idle, lastStop } = await running(t, { hasAgent: false })
  setPower(context, id, 'stopped', GRACE)
  await idle()
  setPower(context, id, 'stopped')
  await idle()
  assert.deepEqual([shown(), lastStop(), host.ended], ['stopped', 'hard', [id]])
})

test('a later daemon keeps the time that the guest has', async (t) => {
  const { context, id, shown, idle, later, stop, start, lastStop } = await running(t, { hasAgent: false })
  setPower(context, id, 'stopped', GRACE)
  await idle()
  await later(GRACE_MS / 2)
  await stop()
  await start()
  assert.equal(shown(), 'stopping')
  await later(GRACE_MS / 2)
  assert.deepEqual([shown(), lastStop()], ['stopped', 'deadline'])
})

for (const [what, byMs] of [
  ['ahead', DAY_MS],
  ['back', -DAY_MS],
] as const) {
  test(`a clock that is set ${what} leaves a guest the time that it has`, async (t) => {
    const stage = await running(t, { hasAgent: false })
    const { clock, context, id, shown, idle, later, noticed, betweenPasses, lastStop } = stage
    setPower(context, id, 'stopped', GRACE)
    await idle()
    await later(GRACE_MS / 2)
    clock.set(byMs)
    await noticed()
    assert.equal(shown(), 'stopping')
    const mustEnd = await betweenPasses(id, async (_change, guestMustEnd) => guestMustEnd.aborted)
    assert.equal(mustEnd, false)
    await later(GRACE_MS / 2 - 1)
    assert.equal(shown(), 'stopping')
    await later(1)
    assert.deepEqual([shown(), lastStop()], ['stopped', 'deadline'])
  })
}

for (const [what, byMs] of [
  ['ahead', DAY_MS],
  ['back', -DAY_MS],
] as const)
  test(`of two requests with a clock between them that is set ${what}, the earlier end holds`, async (t) => {
    const stage = await running(t, { hasAgent: false })
    const { clock, context, id, shown, idle, later, lastStop } = stage
    rebootVm(context, id, GRACE)
    await idle()
    await later(GRACE_MS / 3)
    clock.set(byMs)
    // A stop with as much time takes only what is left of the reboot's.
    setPower(context, id, 'stopped', GRACE)
    await idle()
    assert.equal(shown(), 'stopping')
    // A repeat changes nothing, and a shorter time does.
    const changes = (graceSeconds: number): boolean => {
      const result = setPower(context, id, 'stopped', { graceSeconds })
      return result.ok && result.value.changed
    }
    assert.deepEqual([changes(30), changes(10)], [false, true])
    await idle()
    await later(9999)
    assert.equal(shown(), 'stopping')
    await later(1)
    assert.deepEqual([shown(), lastStop()], ['stopped', 'deadline'])
  })

test('a clock that is set during a step leaves the guest its time, and no more', async (t) => {
  const stage = await running(t, { hasAgent: false })
  const { clock, context, host, id, shown, idle, turns, pokeAll, lastStop } = stage
  const asked = host.monitor.holdNext('askToEnd')
  setPower(context, id, 'stopped', GRACE)
  await turns()
  clock.set(-DAY_MS)
  pokeAll('on purpose')
  clock.advance(GRACE_MS - 1)
  await turns()
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
  clock.advance(1)
  await turns()
  assert.equal(host.fakeUnits.stateOf(id).kind, 'absent')
  asked()
  await idle()
  assert.deepEqual([shown(), lastStop()], ['stopped', 'deadline'])
})

test('a daemon whose clock is behind the stop gives the whole time, and no more', async (t) => {
  const stage = await running(t, { hasAgent: false })
  const { clock, context, id, shown, idle, later, stop, start, lastStop } = stage
  setPower(context, id, 'stopped', GRACE)
  await idle()
  await stop()
  clock.set(-DAY_MS)
  await start()
  await later(GRACE_MS - 1)
  assert.equal(shown(), 'stopping')
  await later(1)
  assert.deepEqual([shown(), lastStop()], ['stopped', 'deadline'])
})

test('the plan of another stop changes nothing of the time of this one', async (t) => {
  const stage = await running(t, { hasAgent: false })
  const { clock, context, id, vm, store, shown, idle, noticed } = stage
  setPower(context, id, 'stopped', GRACE)
  await idle()
  clock.set(DAY_MS)
  const record = vm()
  const looker = stage.looker()
  const grace = { stop: 9, fromMs: clock.now(), untilMs: clock.now() + 1 }
  const other = { ...record, stops: { ...record.stops, grace } }
  assert.equal((await planFor(looker, other, store.vms.inputs(id))).outcome, 'act')
  const own = await planFor(looker, record, store.vms.inputs(id))
  assert.ok(own.outcome === 'act' && own.steps.every(({ kind }) => kind === 'monitor.ask-to-end'))
  await noticed()
  assert.equal(shown(), 'stopping')
})

test('a guest that cannot be asked has its time nevertheless, and the error says why', async (t) => {
  const { context, host, id, vm, shown, idle, later, lastStop } = await running(t, { hasAgent: false })
  host.monitor.askToEnd = () => Promise.reject(new HostFault('monitor_refused', 'on purpose'))
  setPower(context, id, 'stopped', GRACE)
  await idle()
  assert.match(vm().observed.fault?.message ?? '', /on purpose/)
  await later(GRACE_MS)
  assert.deepEqual([shown(), lastStop()], ['stopped', 'deadline'])
})

test('a guest that crashes before it is asked was stopped hard', async (t) => {
  const { context, host, id, shown, idle, lastStop } = await running(t, { hasAgent: false })
  const asked = host.monitor.holdNext('askToEnd')
  setPower(context, id, 'stopped', GRACE)
  host.fakeUnits.exit(id, 1)
  host.monitor.ended(id)
  asked()
  await idle()
  assert.deepEqual([shown(), lastStop()], ['stopped', 'hard'])
})

test('a reboot ends the guest and boots it, under one generation', async (t) => {
  const { context, host, id, vm, shown, idle, lastStop } = await running(t, { hasAgent: true })
  const { life } = host.monitor.memoryOf(id)
  for (const [terms, kind, ended] of [
    [GRACE, 'graceful', []],
    [{}, 'hard', [id]],
  ] as const) {
    const { desired } = vm().generations
    rebootVm(context, id, terms)
    await idle()
    assert.deepEqual([shown(), lastStop(), host.ended], ['running', kind, ended])
    assert.deepEqual(vm().generations, { desired: desired + 1, observed: desired + 1 })
    assert.notEqual(host.monitor.memoryOf(id).life, life)
    assert.equal(vm().exitStreak, 0)
  }
})

test('a paused guest is resumed to end, and is paused again after its reboot', async (t) => {
  const { context, host, id, shown, idle, lastStop } = await running(t, { hasAgent: true })
  setPower(context, id, 'paused')
  await idle()
  const { life } = host.monitor.memoryOf(id)
  rebootVm(context, id, GRACE)
  await idle()
  assert.deepEqual([shown(), lastStop()], ['paused', 'graceful'])
  assert.notEqual(host.monitor.memoryOf(id).life, life)
})

test('a guest that sleeps is woken to end, and nothing of it stays saved', async (t) => {
  const stage = await sleepStage(t)
  const { context, host, id, idle, vm } = stage
  host.monitor.agents.add(id)
  await stage.fallAsleep()
  setPower(context, id, 'stopped', GRACE)
  await idle()
  assert.deepEqual([stage.shown(), vm().observed.lastStop?.kind], ['stopped', 'graceful'])
  assert.deepEqual([host.savedFiles.paths(), host.monitor.relived], [[], []])
  assert.equal(host.monitor.askedToEnd.length, 1)
})

test('a deletion gives no time', async (t) => {
  const { context, host, id, store, idle } = await running(t, { hasAgent: false })
  setPower(context, id, 'stopped', GRACE)
  await idle()
  deleteVm(context, id)
  await idle()
  assert.deepEqual([store.vms.get(id), host.ended], [undefined, [id]])
})

test('a deletion ends the restore of a guest that was to end by itself', async (t) => {
  const { context, host, id, store, idle, turns, fallAsleep } = await sleepStage(t)
  await fallAsleep()
  const release = host.monitor.holdNext('ensureRestored')
  setPower(context, id, 'stopped', GRACE)
  await turns()
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
  deleteVm(context, id)
  await turns()
  const { kind } = host.fakeUnits.stateOf(id)
  release()
  await idle()
  assert.deepEqual([kind, store.vms.get(id)], ['absent', undefined])
})
