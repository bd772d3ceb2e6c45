import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { sleepStage } from '../../test/sleep-stage.ts'
import { rebootVm, setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { DAY_MS } from '../lib/time-units.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../core/ids.ts'

const GRACE = { graceSeconds: 30 }
const GRACE_MS = 30_000

/** A guest that runs and does not hear yet that it should end, within the grace of a stop. */
async function stopping(t: TestContext, grace = GRACE) {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  setPower(stage.context, stage.id, 'stopped', grace)
  await stage.idle()
  assert.equal(stage.shown(), 'stopping')
  return stage
}

type Stage = Awaited<ReturnType<typeof reconcileStage>>

const lastStop = ({ vm }: Pick<Stage, 'vm'>): readonly unknown[] => {
  const { kind, generation } = vm().observed.lastStop ?? {}
  return [kind, generation]
}

async function boot({ stop, host, start, idle }: Stage): Promise<void> {
  await stop()
  await host.reboot()
  await start()
  await idle()
}

for (const [what, awayMs] of [
  ['before its time is over', 0],
  ['after its time is over', DAY_MS],
] as const)
  test(`a guest that a loss of power took in its grace was stopped hard, if the host boots ${what}`, async (t) => {
    const stage = await stopping(t)
    await stage.stop()
    stage.clock.advance(awayMs)
    await boot(stage)
    assert.deepEqual([stage.shown(), lastStop(stage)], ['stopped', ['hard', 2]])
  })

test('a guest that a loss of power took in the grace of its reboot was stopped hard, and boots', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  rebootVm(stage.context, stage.id, GRACE)
  await stage.idle()
  await boot(stage)
  assert.deepEqual([stage.shown(), lastStop(stage)], ['running', ['hard', 2]])
})

for (const [policy, words] of [
  ['save', 'save guests'],
  ['ask', 'ask guests to end'],
] as const)
  test(`a guest within a grace is asked again at a shutdown of the host that is to ${words}, and ends`, async (t) => {
    const stage = await stopping(t)
    const ending = stage.endWithHost(policy, new AbortController().signal)
    await stage.turns()
    assert.equal(stage.host.monitor.askedToEnd.length, 1)
    stage.host.monitor.agents.add(stage.id)
    await stage.later(limits.askToEndAgainMs)
    assert.equal(stage.host.monitor.askedToEnd.length, 2)
    await stage.later(limits.shutdownLookMs)
    assert.deepEqual(await ending, { saved: [], ended: [stage.id], left: [] })
    assert.equal(stage.shown(), 'stopped')
    await boot(stage)
    assert.deepEqual([stage.shown(), lastStop(stage)], ['stopped', ['graceful', 2]])
  })

test('a guest whose grace ends while the host shuts down is not waited for any longer', async (t) => {
  const stage = await stopping(t)
  const ending = stage.endWithHost('save', new AbortController().signal)
  await stage.turns()
  await stage.later(GRACE_MS)
  await stage.later(limits.shutdownLookMs)
  assert.deepEqual(await ending, { saved: [], ended: [], left: [stage.id] })
  await boot(stage)
  assert.deepEqual([stage.shown(), lastStop(stage)], ['stopped', ['deadline', 2]])
})

test('a guest that ends late while the grace of another lasts has ended', async (t) => {
  const stage = await stopping(t, { graceSeconds: 100 })
  const other = 'web-2' as VmId
  stage.create({ network: { ipv4Address: '192.0.2.2' } }, other)
  await stage.idle()
  stage.host.monitor.failNext('save', new HostFault('save_failed', 'the disk is full'))
  const ending = stage.endWithHost('save', new AbortController().signal)
  await stage.turns()
  await stage.later(limits.shutdownGraceMs)
  stage.host.monitor.agents.add(other)
  await stage.later(limits.askToEndAgainMs)
  await stage.later(100_000)
  await stage.later(limits.shutdownLookMs)
  assert.deepEqual(await ending, { saved: [], ended: [other], left: [stage.id] })
  assert.equal(stage.store.vms.get(other)?.observed.lastStop?.kind, 'graceful')
})

test('a guest that ended within its grace is not left at the end of a shutdown, although no pass noted it', async (t) => {
  const stage = await stopping(t)
  const bound = new AbortController()
  const ending = stage.endWithHost('save', bound.signal)
  await stage.turns()
  const release = stage.host.monitor.holdNext('askToEnd')
  stage.clock.advance(limits.askToEndAgainMs)
  await stage.turns()
  stage.host.fakeUnits.exit(stage.id, 0)
  bound.abort()
  stage.clock.advance(limits.shutdownLookMs)
  assert.deepEqual(await ending, { saved: [], ended: [stage.id], left: [] })
  assert.deepEqual(lastStop(stage), ['graceful', 2])
  release()
})

test('the end of a shutdown ends the grace of a guest that still runs', async (t) => {
  const stage = await stopping(t)
  assert.deepEqual(await stage.endWithHost(), { saved: [], ended: [], left: [stage.id] })
  assert.deepEqual([lastStop(stage), stage.vm().stops.grace], [['deadline', 2], undefined])
  await boot(stage)
  assert.deepEqual([stage.shown(), lastStop(stage)], ['stopped', ['deadline', 2]])
})

test('a daemon that has not looked at its VMs yet gives a guest its grace at a shutdown too', async (t) => {
  const stage = await stopping(t)
  await stage.stop()
  stage.begin()
  stage.host.monitor.agents.add(stage.id)
  stage.clock.advance(limits.askToEndAgainMs)
  assert.deepEqual(await stage.endWithHost(), { saved: [], ended: [stage.id], left: [] })
  assert.deepEqual(lastStop(stage), ['graceful', 2])
})

test('a guest that is paused is resumed to end, also while the host shuts down', async (t) => {
  const stage = await reconcileStage(t)
  stage.create()
  await stage.idle()
  setPower(stage.context, stage.id, 'paused')
  await stage.idle()
  await stage.stop()
  stage.begin()
  setPower(stage.context, stage.id, 'stopped', GRACE)
  stage.host.monitor.agents.add(stage.id)
  assert.deepEqual(await stage.endWithHost(), { saved: [], ended: [stage.id], left: [] })
  assert.deepEqual(lastStop(stage), ['graceful', 2 + 1])
})

test('a guest that sleeps when the host shuts down is woken to end after the boot', async (t) => {
  const stage = await sleepStage(t)
  await stage.fallAsleep()
  await stage.stop()
  stage.begin()
  setPower(stage.context, stage.id, 'stopped', GRACE)
  assert.deepEqual(await stage.endWithHost(), { saved: [], ended: [], left: [] })
  stage.host.monitor.agents.add(stage.id)
  await boot(stage)
  assert.deepEqual([stage.shown(), lastStop(stage)], ['stopped', ['graceful', 2]])
})
