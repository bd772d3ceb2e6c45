import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { limits } from '../config/limits.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { HostFault } from '../core/errors.ts'
import { silentLog } from '../log/log.ts'
import { recordingLog } from '../../test/recording-log.ts'
import { sweepOrphans, sweepUntilDone } from './sweep-orphans.ts'
import type { FakeHost } from '../../test/fakes/fake-host.ts'
import type { DeviceName, VmId } from '../core/ids.ts'

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

/** Starts a unit like that of the VM on record, under a name that is on no record. */
async function startUnit(host: FakeHost, like: VmId, name: string, storeId?: string): Promise<void> {
  const spec = host.fakeUnits.specOf(like)
  assert.ok(spec !== undefined)
  await host.fakeUnits.ensureStarted(
    name as VmId,
    { ...spec, mark: { ...spec.mark, ...(storeId === undefined ? {} : { storeId }) } },
    new AbortController().signal,
  )
}

test('a sweep ends orphans of this store and leaves those of another alone', async (t) => {
  const { store, host, id, create, idle } = await reconcileStage(t)
  create()
  await idle()
  await startUnit(host, id, 'orphan')
  await host.consoles.ensureMaster('orphan' as VmId)
  await startUnit(host, id, 'foreign', 'another')
  await host.consoles.ensureMaster('foreign' as VmId)
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal)
  const left = (await host.units.list()).map((unit) => unit.id)
  assert.deepEqual(left.toSorted(), ['foreign', id])
  assert.deepEqual([...(await host.consoles.list())].toSorted(), ['foreign', id])
})

test('a sweep leaves a VM alone that is created while it ends another unit', async (t) => {
  const { store, host, id, create, idle } = await reconcileStage(t)
  const again = 'again' as VmId
  create()
  await idle()
  await startUnit(host, id, 'orphan')
  await host.consoles.ensureMaster(again)
  const ensureStopped = host.units.ensureStopped.bind(host.units)
  t.mock.method(host.units, 'ensureStopped', async (...args: Parameters<typeof ensureStopped>) => {
    await ensureStopped(...args)
    create({ network: { ipv4Address: '192.0.2.99' } }, again)
  })
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal)
  assert.ok((await host.consoles.list()).includes(again))
  await idle()
})

test('a sweep leaves a VM alone that has a disk, as after an older state directory was put back', async (t) => {
  const { store, host, id, create, idle } = await reconcileStage(t)
  const younger = 'younger' as VmId
  create()
  await idle()
  await startUnit(host, id, younger)
  await host.consoles.ensureMaster(younger)
  const disk = host.storage.disks.get(id)
  assert.ok(disk !== undefined)
  host.storage.disks.set(younger, disk)
  const { guests } = host.firewall.table
  const [device] = guests.keys()
  const rule = device && guests.get(device)
  assert.ok(rule !== undefined)
  guests.set('vmt9' as DeviceName, { ...rule, device: 'vmt9' as DeviceName })
  const { log, lines } = recordingLog()
  await sweepOrphans({ store, host, log }, new AbortController().signal)
  assert.equal(host.fakeUnits.stateOf(younger).kind, 'active')
  assert.deepEqual([...(await host.consoles.list())].toSorted(), [id, younger])
  const reported = lines.filter(({ level, vm_id }) => level === 'error' && vm_id === younger)
  assert.match(reported.map(({ message }) => message).join(), /^a VM runs that is not on record/)
  assert.deepEqual([...guests.keys()], [device], 'nothing passes to it or from it')
})

test('the user id of a VM that a sweep leaves alone goes to no other VM while it is there', async (t) => {
  const { store, host } = await reconcileStage(t)
  const younger = 'younger' as VmId
  const userId = store.vms.freeUserId() ?? assert.fail()
  const sweep = (): Promise<boolean> =>
    sweepOrphans({ store, host, log: silentLog }, new AbortController().signal)
  host.storage.disks.set(younger, { sizeMib: 64, userId })
  await sweep()
  assert.equal(store.vms.freeUserId(), userId + 1)
  host.storage.disks.delete(younger)
  await sweep()
  assert.equal(store.vms.freeUserId(), userId)
})

test('a disk that cannot be looked at does not give away the user ids of the others', async (t) => {
  const { store, host } = await reconcileStage(t)
  const userId = store.vms.freeUserId() ?? assert.fail()
  for (const name of ['unseen', 'younger']) host.storage.disks.set(name as VmId, { sizeMib: 64, userId })
  host.storage.failNext('inspect', new HostFault('storage_inspection_failed', 'on purpose'))
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal)
  assert.equal(store.vms.freeUserId(), userId + 1)
})

test('a sweep that fails is repeated after a while, until one completes or the daemon stops', async (t) => {
  const { store, host, clock, id, create, idle, turns } = await reconcileStage(t)
  const ending = new AbortController()
  const isThere = (name: string): boolean => host.fakeUnits.stateOf(name as VmId).kind === 'active'
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms)
    await turns()
  }
  create()
  await idle()
  await startUnit(host, id, 'orphan')
  for (let time = 0; time < 2; time += 1) host.taps.failNext('list', fault('network_failed'))
  await sweepUntilDone({ store, host, log: silentLog }, ending.signal)
  await pass(limits.retryBackoffMsMax)
  await pass(limits.retryBackoffMsMax - 1)
  assert.ok(isThere('orphan'))
  await pass(1)
  assert.ok(!isThere('orphan'))
  await startUnit(host, id, 'later')
  await pass(limits.retryBackoffMsMax)
  assert.ok(isThere('later'))
  host.taps.failNext('list', fault('network_failed'))
  await sweepUntilDone({ store, host, log: silentLog }, ending.signal)
  ending.abort()
  await pass(limits.retryBackoffMsMax)
  assert.ok(isThere('later'))
})

test('a sweep removes nothing when a listing fails', async (t) => {
  const { store, host, id, create, idle } = await reconcileStage(t)
  create()
  await idle()
  await startUnit(host, id, 'orphan')
  host.taps.failNext('list', fault('network_failed'))
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal)
  assert.equal(host.fakeUnits.stateOf('orphan' as VmId).kind, 'active')
})
