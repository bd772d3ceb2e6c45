import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileStage, SAVES_MS } from '../../test/reconcile-stage.ts'
import { sleepStage } from '../../test/sleep-stage.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setMaintenance } from '../commands/maintenance/set-maintenance.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import type { VmId } from '../core/ids.ts'

const named = (number: number): VmId => `web-${number}` as VmId

test('VMs that wait for their images keep no other VM from its stop', async (t) => {
  const waiting = limits.passesMax + 1
  const stage = await reconcileStage(t, { vmsMax: waiting + 1 })
  const { store, context, create, createWithoutImage, idle, turns } = stage
  create()
  await idle()
  for (let number = 2; number <= waiting + 1; number += 1) createWithoutImage(number)
  await turns()
  setPower(context, named(1), 'stopped')
  await turns()
  assert.equal(store.vms.get(named(1))?.observed.state, 'stopped')
  assert.equal(store.vms.get(named(waiting + 1))?.observed.state, 'pending')
})

test('a daemon is started although a VM waits for its image', async (t) => {
  const { host, create, vm, turns, stop, start } = await reconcileStage(t)
  host.storage.holdNext('ensureImage')
  create()
  await turns()
  await stop()
  const release = host.storage.holdNext('ensureImage')
  let started = false
  void start().then(() => (started = true))
  await turns()
  assert.deepEqual([started, vm().observed.state], [true, 'pending'])
  release()
})

test('a VM shows that it waits for its images, from the first fetch to the end of the last', async (t) => {
  const { host, vm, create, turns, idle } = await reconcileStage(t)
  const shown = () => [vm().observed.state, vm().observed.waitingFor]
  const releases = [host.storage.holdNext('ensureImage'), host.storage.holdNext('ensureImage')]
  const makeDisk = host.storage.holdNext('ensureDisk')
  create()
  const seen = []
  for (const release of releases) {
    await turns()
    seen.push(shown())
    release()
  }
  await turns()
  seen.push(shown())
  makeDisk()
  await idle()
  seen.push(shown())
  assert.deepEqual(seen, [
    ['pending', 'the image'],
    ['pending', 'the image'],
    ['pending', undefined],
    ['running', undefined],
  ])
})

test('a fetch that failed shows its fault and no wait', async (t) => {
  const { host, vm, create, idle } = await reconcileStage(t)
  host.storage.failNext('ensureImage', new HostFault('image_unavailable', 'on purpose'))
  create()
  await idle()
  assert.deepEqual([vm().observed.fault?.code, vm().observed.waitingFor], ['image_unavailable', undefined])
})

test('a stop with grace ends a download, because there is not a guest that could end', async (t) => {
  const { host, context, id, vm, create, idle, turns } = await reconcileStage(t)
  host.storage.holdNext('ensureImage')
  create()
  await turns()
  setPower(context, id, 'stopped', { graceSeconds: 600 })
  await turns()
  await idle()
  assert.equal(vm().observed.state, 'stopped')
})

test('a host that is drained during a download starts no guest after it', async (t) => {
  const { store, host, context, id, vm, create, turns, idle } = await reconcileStage(t)
  const comes = host.storage.holdNext('ensureImage')
  create()
  await turns()
  setMaintenance(context, { state: 'drained', drain: { guests: 'sleep', graceSeconds: 0, atOnce: 1 } })
  comes()
  await idle()
  assert.deepEqual([vm().observed.state, (await host.units.inspect(id)).kind], ['stopped', 'absent'])
  assert.notEqual(store.maintenance.get().emptySinceMs, undefined)
  setMaintenance(context, { state: 'schedulable' })
  await idle()
  assert.equal(vm().observed.state, 'running')
})

test('the deletion of a VM that was created as stopped ends its download', async (t) => {
  const { store, host, context, id, create, idle, turns } = await reconcileStage(t)
  host.storage.holdNext('ensureImage')
  create({ power: 'stopped' })
  await turns()
  deleteVm(context, id)
  await idle()
  assert.equal(store.vms.get(id), undefined)
})

test('a restore that takes longer than the grace of a stop ends with it', async (t) => {
  const stage = await sleepStage(t)
  const { context, host, id, later, shown, fallAsleep, turns } = stage
  await fallAsleep()
  host.monitor.holdNext('ensureRestored')
  setPower(context, id, 'stopped', { graceSeconds: 10 })
  await turns()
  assert.notEqual(shown(), 'stopped')
  await later(10_000)
  assert.equal(shown(), 'stopped')
})

for (const end of ['stop', 'deletion'] as const) {
  test(`a ${end} does not wait for the check of a guest that is restored, in a pool that hangs`, async (t) => {
    const { context, host, id, fallAsleep, turns } = await sleepStage(t)
    await fallAsleep()
    const hangs = Promise.withResolvers<void>()
    t.mock.method(host.savedStates, 'verify', () => hangs.promise)
    setPower(context, id, 'running')
    await turns()
    const unit = () => host.fakeUnits.stateOf(id).kind
    const before = unit()
    if (end === 'stop') setPower(context, id, 'stopped')
    else deleteVm(context, id)
    await turns()
    const after = unit()
    // Before a check can fail: the daemon that is stopped then waits for this.
    hangs.resolve()
    assert.deepEqual([before, after], ['active', 'absent'])
  })
}

test('a shutdown of the host ends downloads, and saves the guests at once', async (t) => {
  const { id, create, createWithoutImage, idle, turns, endWithHost } = await reconcileStage(t)
  create()
  await idle()
  createWithoutImage(2)
  await turns()
  const { saved } = await endWithHost()
  assert.deepEqual(saved, [id])
})

test('a save that does not end leaves the others their time to end by themselves', async (t) => {
  const stage = await sleepStage(t)
  stage.createAnother(12)
  await stage.idle()
  const other = named(12)
  stage.host.monitor.agents.add(other)
  const release = stage.host.monitor.holdNext('save')
  stage.host.monitor.failNext('save', new HostFault('save_failed', 'the disk is full'))
  const ending = stage.endWithHost('save', new AbortController().signal)
  await stage.turns()
  stage.clock.advance(SAVES_MS)
  await stage.turns()
  assert.deepEqual(stage.host.monitor.askedToEnd, [other])
  release()
  await stage.turns()
  stage.clock.advance(limits.shutdownLookMs)
  const { saved, ended, left } = await ending
  assert.deepEqual({ saved, ended, left }, { saved: [stage.id], ended: [other], left: [] })
})

test('a daemon has not started after a boot before the device of each sleeping guest is there', async (t) => {
  const { host, fallAsleep, stop, start, turns } = await sleepStage(t)
  await fallAsleep()
  await stop()
  await host.reboot()
  const { promise: allowed, resolve: release } = Promise.withResolvers<void>()
  const ensure = host.taps.ensure.bind(host.taps)
  t.mock.method(host.taps, 'ensure', async (...given: Parameters<typeof ensure>) => {
    await allowed
    return ensure(...given)
  })
  let started = false
  void start().then(() => (started = true))
  await turns()
  const before = started
  // Before a check can fail: the daemon that is stopped then waits for this.
  release()
  await turns()
  assert.equal(before, false)
  assert.equal(started, true)
})
