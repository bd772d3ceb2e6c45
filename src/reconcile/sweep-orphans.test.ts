import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../config/limits.ts'
import { recordingLog } from '../../test/recording-log.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { HostFault } from '../core/errors.ts'
import { silentLog } from '../log/log.ts'
import { sweepOrphans, sweepUntilDone } from './sweep-orphans.ts'
import type { FakeHost } from '../../test/fakes/fake-host.ts'
import type { DeviceName, VmId } from '../core/ids.ts'

const networkFault = () => new HostFault('network_failed', 'on purpose')

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
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal, new Set())
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
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal, new Set())
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
  await sweepOrphans({ store, host, log }, new AbortController().signal, new Set())
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
    sweepOrphans({ store, host, log: silentLog }, new AbortController().signal, new Set())
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
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal, new Set())
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
  for (let time = 0; time < 2; time += 1) host.taps.failNext('list', networkFault())
  await sweepUntilDone({ store, host, log: silentLog }, ending.signal)
  await pass(limits.retryBackoffMsMax)
  await pass(limits.retryBackoffMsMax - 1)
  assert.ok(isThere('orphan'))
  await pass(1)
  assert.ok(!isThere('orphan'))
  await startUnit(host, id, 'later')
  await pass(limits.retryBackoffMsMax)
  assert.ok(isThere('later'))
  host.taps.failNext('list', networkFault())
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
  host.taps.failNext('list', networkFault())
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal, new Set())
  assert.equal(host.fakeUnits.stateOf('orphan' as VmId).kind, 'active')
})

test('a firewall that fails does not keep orphans alive, and what is left alone is reported once', async (t) => {
  const { store, host, clock, id, create, idle, turns } = await reconcileStage(t)
  const younger = 'younger' as VmId
  create()
  await idle()
  await startUnit(host, id, 'orphan')
  host.storage.disks.set(younger, { sizeMib: 64, userId: store.vms.freeUserId() ?? assert.fail() })
  for (let time = 0; time < 2; time += 1) host.firewall.failNext('removeStrangers', networkFault())
  const { log, lines } = recordingLog()
  const ofYounger = (): unknown[] => lines.filter(({ vm_id }) => vm_id === younger)
  await sweepUntilDone({ store, host, log }, new AbortController().signal)
  assert.equal(host.fakeUnits.stateOf('orphan' as VmId).kind, 'absent')
  assert.equal(ofYounger().length, 1)
  for (let time = 0; time < 2; time += 1) {
    clock.advance(limits.retryBackoffMsMax)
    await turns()
  }
  const failures = lines.filter(({ message }) => /^firewall not closed .*; repeated later/.test(message))
  assert.deepEqual([failures.length, ofYounger().length], [2, 1])
})

test('a unit that does not end keeps no stranger its network, and gives no user id of a disk away', async (t) => {
  const { store, host, id, create, idle } = await reconcileStage(t)
  create()
  await idle()
  await startUnit(host, id, 'orphan')
  host.fakeUnits.failNext('ensureStopped', new HostFault('systemd_unavailable', 'on purpose'))
  const userId = store.vms.freeUserId() ?? assert.fail()
  host.storage.disks.set('younger' as VmId, { sizeMib: 64, userId })
  const { guests } = host.firewall.table
  const [device] = guests.keys()
  const rule = device && guests.get(device)
  assert.ok(rule !== undefined)
  guests.set('vmt9' as DeviceName, { ...rule, device: 'vmt9' as DeviceName })
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal, new Set())
  assert.deepEqual([...guests.keys()], [device])
  assert.equal(store.vms.freeUserId(), userId + 1)
})
