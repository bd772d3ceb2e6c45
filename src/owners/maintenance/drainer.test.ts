import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { breakRecord, mendRecord } from '../../../test/break-record.ts'
import { reconcileStage } from '../../../test/reconcile-stage.ts'
import { setMaintenance } from '../../commands/maintenance/set-maintenance.ts'
import { setMetadata } from '../../commands/vm/set-metadata.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { shownMaintenance } from '../../core/maintenance/maintenance.ts'
import { vmsLeft } from './drainer.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../core/ids.ts'
import type { Drain } from '../../core/maintenance/maintenance.ts'
import type { ObservedState, VmRecord } from '../../core/vm/record.ts'

const SLEEP: Drain = { guests: 'sleep', graceSeconds: 0, atOnce: 1 }
const STOP: Drain = { guests: 'stop', graceSeconds: 60, atOnce: 1 }
const SLEEPER = { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 600 }

/** A host with VMs that run, `web-1` to `web-3` unless given. */
async function drainStage(t: TestContext, vms = 3) {
  const stage = await reconcileStage(t)
  const { store, context, idle, later } = stage
  const ids = Array.from({ length: vms }, (_, index) => `web-${index + 1}` as VmId)
  for (const [index, id] of ids.entries())
    stage.create({ compute: SLEEPER, network: { ipv4Address: `192.0.2.${10 + index}` } }, id)
  await idle()
  const vm = (id: VmId): VmRecord => store.vms.get(id) ?? assert.fail(`${id} is gone`)
  const states = (): readonly ObservedState[] => ids.map((id) => vm(id).observed.state)
  assert.ok(states().every((state) => state === 'running'))
  return {
    ...stage,
    ids,
    vm,
    states,
    drain: (drain: Drain) => setMaintenance(context, { state: 'drained', drain }),
    set: async (state: 'schedulable' | 'cordoned') => {
      setMaintenance(context, { state })
      await idle()
    },
    /** Lets one look of the drainer come, and the passes that follow. */
    look: () => later(limits.drainLookMs),
    maintenance: () => shownMaintenance(store.maintenance.get()),
    left: () => vmsLeft(context),
    lives: () => ids.map((id) => stage.host.monitor.memoryOf(id).life),
  }
}

test('guests are saved as many at once as is asked for, and the same guests go on afterwards', async (t) => {
  const { drain, look, states, maintenance, set, lives, ids, vm, left } = await drainStage(t)
  const before = lives()
  drain(SLEEP)
  assert.equal(maintenance(), 'draining')
  await look()
  assert.deepEqual(states(), ['sleeping', 'running', 'running'])
  assert.deepEqual(
    left().map(({ id, underWay }) => [id, underWay]),
    [
      ['web-2', false],
      ['web-3', false],
    ],
  )
  await look()
  await look()
  assert.deepEqual(states(), ['sleeping', 'sleeping', 'sleeping'])
  await look()
  assert.equal(maintenance(), 'drained')
  assert.deepEqual(left(), [])
  await set('schedulable')
  assert.deepEqual(states(), ['running', 'running', 'running'])
  assert.deepEqual(lives(), before)
  for (const id of ids) {
    assert.deepEqual([vm(id).observed.lastWake?.reason, vm(id).wake], ['maintenance', undefined])
    assert.deepEqual(vm(id).generations, { desired: 1, observed: 1 })
  }
})

test('several guests come to rest at once', async (t) => {
  const { drain, look, states } = await drainStage(t)
  drain({ ...SLEEP, atOnce: 2 })
  await look()
  assert.deepEqual(states(), ['sleeping', 'sleeping', 'running'])
})

test('a later daemon continues, and wakes nothing', async (t) => {
  const stage = await drainStage(t)
  stage.drain(SLEEP)
  await stage.look()
  await stage.stop()
  await stage.start()
  await stage.idle()
  assert.deepEqual(stage.states(), ['sleeping', 'running', 'running'])
  await stage.look()
  await stage.look()
  assert.deepEqual(stage.states(), ['sleeping', 'sleeping', 'sleeping'])
})

test('a boot of a drained host wakes nothing, and the guests go on when the maintenance is over', async (t) => {
  const stage = await drainStage(t)
  stage.drain({ ...SLEEP, atOnce: 3 })
  await stage.look()
  await stage.endWithHost()
  await stage.stop()
  await stage.host.reboot()
  await stage.start()
  await stage.idle()
  await stage.look()
  assert.deepEqual(stage.states(), ['sleeping', 'sleeping', 'sleeping'])
  assert.deepEqual(await stage.host.units.active(), [])
  await stage.set('schedulable')
  assert.deepEqual(stage.states(), ['running', 'running', 'running'])
})

for (const drain of [SLEEP, STOP])
  test(`a boot in the middle of a drain empties the host, and wakes nothing: guests ${drain.guests}`, async (t) => {
    const stage = await drainStage(t)
    stage.drain(drain)
    await stage.look()
    await stage.endWithHost()
    await stage.stop()
    await stage.host.reboot()
    await stage.start()
    await stage.idle()
    for (let looks = 0; looks < 3; looks += 1) await stage.look()
    assert.deepEqual([stage.left(), stage.maintenance()], [[], 'drained'])
    assert.deepEqual(await stage.host.units.active(), [])
    await stage.set('schedulable')
    assert.deepEqual(stage.states(), ['running', 'running', 'running'])
  })

test('a host without a guest is drained at once', async (t) => {
  const { drain, context, ids, idle, maintenance } = await drainStage(t, 1)
  setPower(context, ids[0] as VmId, 'stopped', { graceSeconds: 0 })
  await idle()
  drain(SLEEP)
  assert.equal(maintenance(), 'drained')
})

test('changes that never pause do not put the turns off', async (t) => {
  const { drain, context, ids, later, states, idle } = await drainStage(t)
  drain(SLEEP)
  for (let changes = 0; changes < 4; changes += 1) {
    await later(limits.drainLookMs / 2)
    setMetadata(context, ids[2] as VmId, { labels: { change: String(changes) } })
    await idle()
  }
  assert.equal(states()[0], 'sleeping')
})

test('a guest with a longer stop of its own keeps no other waiting', async (t) => {
  const { context, drain, look, ids, states } = await drainStage(t, 2)
  setPower(context, ids[0] as VmId, 'stopped', { graceSeconds: 3600 })
  drain(SLEEP)
  await look()
  await look()
  assert.deepEqual(states(), ['stopping', 'sleeping'])
})

test('nothing wakes or starts on a drained host, and what was wanted meanwhile comes afterwards', async (t) => {
  const { host, context, ids, vm, drain, look, set, later, states, idle, create } = await drainStage(t, 2)
  const [first, second] = ids as [VmId, VmId]
  await later(SLEEPER.sleepAfterIdleSeconds * 1000)
  setPower(context, second, 'stopped')
  await idle()
  assert.deepEqual(states(), ['sleeping', 'stopped'])
  drain(SLEEP)
  await look()
  host.traffic.receive(vm(first).host.device, { name: 'wanted' })
  setPower(context, second, 'running')
  create({ network: { ipv4Address: '192.0.2.20' } }, 'web-9' as VmId)
  await idle()
  await look()
  assert.deepEqual(states(), ['sleeping', 'stopped'])
  assert.equal(vm(second).observed.waitingFor, 'the end of maintenance')
  assert.deepEqual(vm(second).generations, { desired: 3, observed: 2 })
  assert.equal(context.store.vms.get('web-9' as VmId), undefined)
  await set('cordoned')
  assert.deepEqual(states(), ['running', 'running'])
  assert.equal(vm(first).observed.lastWake?.reason, 'traffic')
})

test('guests that stop are asked, one after the other, and boot when the maintenance is over', async (t) => {
  const { host, ids, vm, drain, look, states, maintenance, set } = await drainStage(t, 2)
  const [first, second] = ids as [VmId, VmId]
  host.monitor.agents.add(first).add(second)
  drain(STOP)
  await look()
  assert.deepEqual(states(), ['stopped', 'running'])
  await look()
  await look()
  assert.deepEqual([states(), maintenance()], [['stopped', 'stopped'], 'drained'])
  assert.deepEqual([vm(first).observed.lastStop?.kind, host.ended], ['graceful', []])
  assert.deepEqual([vm(first).desired.power, vm(first).observed.restarts], ['running', undefined])
  await set('schedulable')
  assert.deepEqual(states(), ['running', 'running'])
  assert.equal(vm(first).generations.observed, vm(first).generations.desired)
})

test('a guest that does not end is stopped hard at the end of its time, and keeps the next one waiting until then', async (t) => {
  const { drain, look, later, vm, ids, states } = await drainStage(t, 2)
  drain(STOP)
  await look()
  assert.deepEqual(states(), ['stopping', 'running'])
  await later(STOP.graceSeconds * 1000)
  await look()
  assert.equal(states()[0], 'stopped')
  assert.equal(vm(ids[0] as VmId).observed.lastStop?.kind, 'deadline')
  assert.equal(states()[1], 'stopping')
})

test('a guest that cannot be saved keeps no other waiting, and is tried again', async (t) => {
  const { host, drain, look, later, states, maintenance, left } = await drainStage(t)
  host.monitor.failNext('save', new HostFault('save_failed', 'on purpose'))
  drain(SLEEP)
  for (let looks = 0; looks < 3; looks += 1) await look()
  assert.deepEqual([states(), maintenance()], [['running', 'sleeping', 'sleeping'], 'draining'])
  const [guest, ...others] = left()
  assert.deepEqual([guest?.id, guest?.record.observed.fault?.code, others], ['web-1', 'save_failed', []])
  await later(limits.retryBackoffMsMin)
  await look()
  assert.deepEqual([states(), maintenance()], [['sleeping', 'sleeping', 'sleeping'], 'drained'])
})

test('a guest that no save can bring to rest has a fault for as long as the drain', async (t) => {
  const { host, drain, look, set, vm, ids, maintenance } = await drainStage(t, 1)
  Object.assign(host.monitor, { capabilities: { ...host.monitor.capabilities, save: false } })
  drain(SLEEP)
  await look()
  const shown = () => vm(ids[0] as VmId).observed
  assert.deepEqual([maintenance(), shown().fault?.code], ['draining', 'sleep_unsupported'])
  await set('schedulable')
  assert.deepEqual(
    [shown().fault, shown().partialFaults?.map(({ code }) => code)],
    [undefined, ['sleep_unsupported']],
  )
})

test('a host that is put back in the middle of its drain has all of its guests', async (t) => {
  const { drain, look, set, states, lives, vm, ids } = await drainStage(t)
  const before = lives()
  drain(SLEEP)
  await look()
  await set('schedulable')
  await look()
  assert.deepEqual([states(), lives()], [['running', 'running', 'running'], before])
  assert.ok(ids.every((id) => vm(id).wake === undefined))
})

test('a paused guest is paused again afterwards', async (t) => {
  const { context, ids, drain, look, set, states, idle } = await drainStage(t, 1)
  setPower(context, ids[0] as VmId, 'paused')
  await idle()
  drain(SLEEP)
  await look()
  assert.deepEqual(states(), ['sleeping'])
  await set('schedulable')
  assert.deepEqual(states(), ['paused'])
})

test('a paused guest that cannot be saved is shown as paused all the time', async (t) => {
  const { host, context, ids, drain, look, later, states, idle, turns } = await drainStage(t, 1)
  setPower(context, ids[0] as VmId, 'paused')
  await idle()
  host.monitor.failNext('save', new HostFault('save_failed', 'on purpose'))
  drain(SLEEP)
  await look()
  assert.deepEqual(states(), ['paused'])
  const release = host.monitor.holdNext('save')
  const saved = later(limits.retryBackoffMsMin)
  await turns()
  assert.deepEqual(states(), ['paused'])
  release()
  await saved
  await look()
  assert.deepEqual(states(), ['sleeping'])
})

test('a record that cannot be read keeps no other guest from its turn, and the host from being drained', async (t) => {
  const { directory, drain, look, later, ids, vm, maintenance, lines } = await drainStage(t)
  const [unreadable, ...others] = ids as [VmId, ...VmId[]]
  breakRecord(directory, unreadable)
  drain(SLEEP)
  for (let looks = 0; looks < 4; looks += 1) await look()
  assert.deepEqual(
    others.map((id) => vm(id).observed.state),
    ['sleeping', 'sleeping'],
  )
  assert.equal(maintenance(), 'draining')
  const said = 'host not drained: the record cannot be read, so a guest may be left'
  assert.ok(lines.some(({ vm_id, message }) => vm_id === unreadable && message === said))
  mendRecord(directory, unreadable)
  for (let looks = 0; looks < 2; looks += 1) await later(limits.drainRecheckMs)
  assert.equal(maintenance(), 'drained')
})

test('a host with one record that cannot be read is not drained at once', async (t) => {
  const { directory, drain, maintenance, ids } = await drainStage(t, 1)
  for (const id of ids) breakRecord(directory, id)
  drain(SLEEP)
  assert.equal(maintenance(), 'draining')
})

test('a launch that an earlier daemon left on a VM that sleeps is not a guest', async (t) => {
  const { store, host, clock, vm, later, drain, maintenance, ids } = await drainStage(t, 1)
  const [id] = ids as [VmId]
  await later(SLEEPER.sleepAfterIdleSeconds * 1000)
  const nowMs = clock.now()
  const launch = { bootId: host.bootId, atMs: nowMs, compute: SLEEPER }
  store.vms.recordProgress(id, { observed: vm(id).observed, launch, nowMs })
  drain(STOP)
  assert.equal(maintenance(), 'drained')
})

for (const drain of [SLEEP, STOP, { ...STOP, graceSeconds: 0 }])
  test(`a guest that could not be restored keeps its memory: guests ${drain.guests}, ${drain.graceSeconds} s`, async (t) => {
    const stage = await drainStage(t, 1)
    const [id] = stage.ids as [VmId]
    await stage.later(SLEEPER.sleepAfterIdleSeconds * 1000)
    stage.host.monitor.failNext('ensureRestored', new HostFault('restore_failed', 'on purpose'))
    stage.host.traffic.receive(stage.vm(id).host.device, { name: 'wanted' })
    await stage.idle()
    assert.deepEqual([stage.states(), stage.vm(id).launch], [['failed'], undefined])
    stage.drain(drain)
    await stage.look()
    await stage.later(STOP.graceSeconds * 1000)
    await stage.look()
    assert.deepEqual([stage.states(), stage.left(), stage.maintenance()], [['sleeping'], [], 'drained'])
    assert.notEqual(stage.host.savedStates.metadataOf(id), undefined)
    await stage.set('schedulable')
    assert.deepEqual([stage.states(), stage.lives()], [['running'], [1]])
  })

type Stage = Awaited<ReturnType<typeof drainStage>>

/** Lets no unit end until the returned function is called. */
function holdUnits({ host }: Stage): () => void {
  const deaf = mock.method(host.units, 'ensureStopped', async () => {
    throw new HostFault('unit_stop_failed', 'on purpose')
  })
  return () => deaf.mock.restore()
}

for (const [what, end] of [
  [
    'a process that hangs',
    ({ host }: Stage, id: VmId) => {
      host.fakeUnits.leave(id)
      host.fakeUnits.exit(id, 1)
    },
  ],
  [
    'a unit that does not end',
    ({ host }: Stage, id: VmId) => host.monitor.become(id, { kind: 'broken', status: 'internal-error' }),
  ],
] as const)
  for (const drain of [SLEEP, STOP])
    test(`a host is not drained while ${what} is left of a guest: guests ${drain.guests}`, async (t) => {
      const stage = await drainStage(t, 1)
      const [id] = stage.ids as [VmId]
      const letEnd = holdUnits(stage)
      end(stage, id)
      await stage.idle()
      assert.deepEqual([stage.states(), stage.vm(id).launch], [['failed'], undefined])
      stage.drain(drain)
      await stage.look()
      assert.deepEqual([stage.maintenance(), stage.left().map((left) => left.id)], ['draining', [id]])
      assert.equal(stage.left()[0]?.record.observed.fault?.code, 'unit_stop_failed')
      // What was seen holds while systemd is out of reach.
      stage.host.fakeUnits.failNext('inspect', new HostFault('systemd_unavailable', 'on purpose'))
      while (stage.vm(id).observed.fault?.code !== 'systemd_unavailable') await stage.look()
      assert.deepEqual([stage.maintenance(), stage.left().map((left) => left.id)], ['draining', [id]])
      letEnd()
      await stage.later(limits.retryBackoffMsMax)
      await stage.look()
      assert.deepEqual([stage.left(), stage.maintenance()], [[], 'drained'])
      assert.equal(stage.vm(id).generations.desired, 1, 'it was not stopped: its unit ends without that')
    })

test('a unit that does not end after a failed restore keeps the host from being drained, and its memory is kept', async (t) => {
  const stage = await drainStage(t, 1)
  const [id] = stage.ids as [VmId]
  await stage.later(SLEEPER.sleepAfterIdleSeconds * 1000)
  const letEnd = holdUnits(stage)
  stage.host.monitor.failNext('ensureRestored', new HostFault('restore_failed', 'on purpose'))
  stage.host.traffic.receive(stage.vm(id).host.device, { name: 'wanted' })
  await stage.idle()
  stage.drain({ ...STOP, graceSeconds: 0 })
  await stage.look()
  await stage.look()
  assert.equal(stage.maintenance(), 'draining')
  letEnd()
  await stage.later(limits.retryBackoffMsMax)
  await stage.look()
  assert.deepEqual([stage.states(), stage.maintenance()], [['sleeping'], 'drained'])
  assert.notEqual(stage.host.savedStates.metadataOf(id), undefined)
})
