import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { limits } from '../config/limits.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { HostFault } from '../core/errors.ts'
import type { VmId } from '../core/ids.ts'

const fault = (code: 'network_failed' | 'unit_start_failed') => new HostFault(code, 'on purpose')

test('a new VM runs, and its generation is published', async (t) => {
  const { host, id, vm, create, idle } = await reconcileStage(t)
  create()
  await idle()
  assert.equal(vm().observed.state, 'running')
  assert.deepEqual(vm().generations, { desired: 1, observed: 1 })
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
})

test('settled VMs are looked at now and then, each less often if there are many', async (t) => {
  const vmsMax = 2 * limits.resyncsPerSecondMax * (limits.resyncMs / 1000)
  const { host, create, idle, later } = await reconcileStage(t, { vmsMax })
  for (let number = 1; number <= vmsMax; number += 1)
    create({ power: 'stopped', network: { ipv4Address: `192.0.2.${number}` } }, `web-${number}` as VmId)
  await idle()
  const looks = mock.method(host.storage, 'inspect').mock
  await later(limits.resyncMs)
  assert.equal(looks.callCount(), 0)
  await later(limits.resyncMs)
  assert.equal(looks.callCount(), vmsMax)
})

test('a deletion ends a download that is under way, and leaves nothing', async (t) => {
  const { store, host, context, id, vm, create, idle, turns } = await reconcileStage(t)
  host.storage.holdNext('ensureImage')
  create()
  await turns()
  assert.equal(vm().observed.state, 'pending')
  deleteVm(context, id)
  await idle()
  assert.equal(store.vms.get(id), undefined)
  assert.deepEqual(await host.storage.list(), [])
  assert.deepEqual([...host.taps.devices.keys()], [])
})

test('a deletion forgets the traffic of its guest, also if the device was removed by hand', async (t) => {
  const { host, store, context, id, vm, create, idle } = await reconcileStage(t, { vmsMax: 1 })
  create()
  await idle()
  const { device, userId } = vm().host
  host.traffic.receive(device)
  setPower(context, id, 'stopped')
  await idle()
  host.taps.devices.delete(device)
  deleteVm(context, id)
  await idle()
  assert.equal(store.vms.get(id), undefined)
  create()
  await idle()
  assert.equal(vm().host.userId, userId)
  const traffic = await host.traffic.inspect(vm().host)
  assert.ok(traffic.kind === 'watched')
  assert.deepEqual([traffic.packets, traffic.lastTrafficAtMs], [0, undefined])
})

test('a stop during a download ends it and does not start the guest', async (t) => {
  const { host, context, id, vm, create, idle, turns } = await reconcileStage(t)
  host.storage.holdNext('ensureImage')
  create()
  await turns()
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(vm().observed.state, 'stopped')
  assert.equal(vm().generations.observed, 2)
  assert.deepEqual(host.ended, [])
})

test('a change that ends nothing waits for the running step', async (t) => {
  const { host, context, id, vm, create, idle, turns } = await reconcileStage(t)
  const release = host.storage.holdNext('ensureImage')
  create()
  await turns()
  setPower(context, id, 'paused')
  await turns()
  assert.equal(vm().observed.state, 'pending')
  release()
  await idle()
  assert.equal(vm().observed.state, 'paused')
})

test('a failed step shows its fault and is tried again after the back-off, not before', async (t) => {
  const { clock, host, vm, create, idle } = await reconcileStage(t)
  host.taps.failNext('ensure', fault('network_failed'))
  create()
  await idle()
  const shown = vm().observed
  assert.equal(shown.state, 'failed')
  assert.deepEqual(
    [shown.fault?.code, shown.fault?.step, shown.fault?.attempt],
    ['network_failed', 'network.ensure-tap', 1],
  )
  clock.advance(999)
  await idle()
  assert.equal(vm().observed.state, 'failed')
  clock.advance(1)
  await idle()
  assert.deepEqual([vm().observed.state, vm().observed.fault], ['running', undefined])
})

test('a watcher does not cut a back-off short, and a change does', async (t) => {
  const { host, context, id, vm, create, idle } = await reconcileStage(t)
  host.fakeUnits.failNext('ensureStarted', fault('unit_start_failed'))
  create()
  await idle()
  host.fakeUnits.reconnect()
  await idle()
  assert.equal(vm().observed.state, 'failed')
  setPower(context, id, 'paused')
  await idle()
  assert.deepEqual([vm().observed.state, vm().observed.fault], ['paused', undefined])
})

test('a guest that ends by itself fails, waits longer each time, and starts again', async (t) => {
  const { clock, host, id, vm, create, idle } = await reconcileStage(t)
  create()
  await idle()
  const attempts: unknown[] = []
  for (const waitMs of [1000, 2000, 4000]) {
    host.fakeUnits.exit(id, 1)
    host.monitor.ended(id)
    await idle()
    const { state, fault: seen } = vm().observed
    attempts.push([state, seen?.code, (seen?.nextAttemptAtMs ?? 0) - clock.now()])
    clock.advance(waitMs)
    await idle()
    assert.equal(vm().observed.state, 'running')
  }
  assert.deepEqual(attempts, [
    ['failed', 'vm_exited', 1000],
    ['failed', 'vm_exited', 2000],
    ['failed', 'vm_exited', 4000],
  ])
  assert.deepEqual(vm().generations, { desired: 1, observed: 1 })
})

test('a guest that ran for long starts a new row of exits', async (t) => {
  const { clock, host, id, vm, create, idle } = await reconcileStage(t)
  create()
  await idle()
  for (const ranMs of [0, 3_600_000]) {
    clock.advance(ranMs)
    host.fakeUnits.exit(id, 0)
    host.monitor.ended(id)
    await idle()
    assert.equal(vm().observed.fault?.attempt, 1)
    clock.advance(1000)
    await idle()
  }
})

test('a host that rebooted starts its VMs again without calling it an exit', async (t) => {
  const { host, id, vm, create, idle, stop, start } = await reconcileStage(t)
  create()
  await idle()
  await stop()
  host.fakeUnits.exit(id, 0)
  host.monitor.ended(id)
  host.bootId = 'boot-2'
  await start()
  await idle()
  assert.deepEqual([vm().observed.state, vm().exitStreak], ['running', 0])
})

test('a restarted daemon adopts a running guest and does nothing to it', async (t) => {
  const { host, id, vm, create, idle, stop, start } = await reconcileStage(t)
  create()
  await idle()
  const unit = host.fakeUnits.stateOf(id)
  await stop()
  await start()
  await idle()
  assert.deepEqual(host.fakeUnits.stateOf(id), unit)
  assert.deepEqual(host.ended, [])
  assert.equal(vm().observed.state, 'running')
})

test("another key of the daemon's reaches a guest with its next start, and does nothing to one that runs", async (t) => {
  const { host, context, id, vm, create, idle, pokeAll } = await reconcileStage(t)
  create()
  await idle()
  const before = [host.fakeUnits.stateOf(id), host.storage.seeds.get(id), vm().generations]
  host.sshPublicKey = 'ssh-ed25519 BBBB vmhostd@host-1'
  pokeAll('a start of the daemon')
  await idle()
  assert.deepEqual([host.fakeUnits.stateOf(id), host.storage.seeds.get(id), vm().generations], before)
  setPower(context, id, 'stopped')
  await idle()
  setPower(context, id, 'running')
  await idle()
  const files = host.storage.seeds.get(id)?.files ?? []
  assert.match(files.find(({ name }) => name === 'meta-data')?.content ?? '', /public-keys:\n.*BBBB/)
  assert.deepEqual(vm().generations, { desired: 3, observed: 3 })
})

test('a stop of the daemon waits for no download and leaves guests alone', async (t) => {
  const { host, context, id, create, idle, stop, turns } = await reconcileStage(t)
  create()
  await idle()
  await stop()
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
  setPower(context, id, 'stopped')
  await turns()
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
})

test('a pool out of sight shows why, changes no state, and heals', async (t) => {
  const { clock, host, vm, create, idle } = await reconcileStage(t)
  create()
  await idle()
  host.storage.setInSight(false)
  host.fakeUnits.reconnect()
  await idle()
  assert.deepEqual([vm().observed.state, vm().observed.fault?.code], ['running', 'storage_inspection_failed'])
  host.storage.setInSight(true)
  clock.advance(60_000)
  await idle()
  assert.deepEqual([vm().observed.state, vm().observed.fault], ['running', undefined])
})

test('a bug in the pass of one VM is shown on it and does not end the daemon', async (t) => {
  const { host, context, id, vm, create, idle, lines } = await reconcileStage(t)
  const looked = mock.method(host.taps, 'inspect', () => Promise.reject(new TypeError('a bug')))
  create()
  await idle()
  const bug = lines.find(({ level }) => level === 'error')
  assert.deepEqual([bug?.['vm_id'], bug?.['operation_id']], [id, vm().operationId])
  assert.deepEqual([vm().observed.state, vm().observed.fault?.code], ['failed', 'bug'])
  looked.mock.restore()
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(vm().observed.state, 'stopped')
})
