import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mock, test } from 'node:test'
import { bzImageHead, ext4Head } from '../../test/image-heads.ts'
import { reconcileStage } from '../../test/reconcile-stage.ts'
import { setMaintenance } from '../commands/maintenance/set-maintenance.ts'
import { deleteVm } from '../commands/vm/delete-vm.ts'
import { setDisk } from '../commands/vm/reshape.ts'
import { setPower } from '../commands/vm/set-power.ts'
import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { shownMaintenance } from '../core/maintenance/maintenance.ts'
import { GATEWAY_MAC } from '../core/network/tap.ts'
import { DAY_MS } from '../lib/time-units.ts'
import type { ImageRole } from '../core/desired.ts'
import type { FaultCode } from '../core/errors.ts'
import type { Sha256 } from '../core/ids.ts'

const fault = (code: FaultCode) => new HostFault(code, 'on purpose')

test('a wait says what for, is a fault past its deadline, and ends when the host moves', async (t) => {
  const { host, vm, create, shown, idle, later, noticed } = await reconcileStage(t)
  create()
  await idle()
  const stuck = mock.method(host.units, 'inspect', () => Promise.resolve({ kind: 'deactivating' as const }))
  await noticed()
  assert.deepEqual([shown(), vm().observed.waitingFor], ['stopping', 'the unit to stop'])
  for (let waitedMs = 0; waitedMs < limits.unitWaitMs; waitedMs += limits.unitRecheckMs) {
    await later(limits.unitRecheckMs)
  }
  assert.equal(shown(), 'stopping wait_overdue')
  assert.match(vm().observed.fault?.message ?? '', /^stopping for 30 s, waiting for the unit to stop$/)
  stuck.mock.restore()
  await noticed()
  assert.equal(shown(), 'running')
})

test('a wait counts the time that passes, and not by how much the clock is set', async (t) => {
  for (const byMs of [365 * DAY_MS, -365 * DAY_MS]) {
    const { host, clock, create, shown, idle, later, noticed } = await reconcileStage(t)
    create()
    await idle()
    mock.method(host.units, 'inspect', () => Promise.resolve({ kind: 'deactivating' as const }))
    await noticed()
    clock.set(byMs)
    for (let waitedMs = 0; waitedMs < limits.unitWaitMs; waitedMs += limits.unitRecheckMs) {
      assert.equal(shown(), 'stopping')
      await later(limits.unitRecheckMs)
    }
    assert.equal(shown(), 'stopping wait_overdue')
  }
})

test('a disk that is gone is never made again: it is a fault until it is back', async (t) => {
  const { host, context, id, create, shown, idle, later } = await reconcileStage(t)
  create()
  await idle()
  setPower(context, id, 'stopped')
  await idle()
  const disk = host.storage.disks.get(id)
  assert.ok(disk !== undefined)
  host.storage.disks.delete(id)
  setPower(context, id, 'running')
  await idle()
  assert.equal(shown(), 'failed disk_missing')
  assert.equal(host.storage.disks.has(id), false)
  host.storage.disks.set(id, disk)
  await later(1000)
  assert.equal(shown(), 'running')
})

test('a VM whose kernel and rootfs are swapped gets no disk, and says which image is what', async (t) => {
  const { host, vm, create, shown, idle } = await reconcileStage(t)
  const offered = (role: ImageRole, content: Buffer) => {
    const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
    return { role, sha256, source: host.storage.offer(content) }
  }
  const images = [offered('rootfs', bzImageHead()), offered('kernel', ext4Head())]
  create({ image: { images } })
  await idle()
  assert.equal(shown(), 'failed image_unsuitable')
  const { message = '' } = vm().observed.fault ?? {}
  assert.match(message, /kernel image \w+.* an ext2, ext3 or ext4 file system/)
  assert.equal(host.storage.disks.size, 0)
  assert.equal(host.fakeUnits.specOf(vm().id), undefined)
})

test('asking again for the power that failed is tried at once, long before the next attempt is due', async (t) => {
  const { host, context, id, vm, create, shown, idle } = await reconcileStage(t)
  host.storage.failNext('ensureDisk', fault('storage_read_only'))
  create()
  await idle()
  assert.equal(shown(), 'failed storage_read_only')
  setPower(context, id, 'running')
  await idle()
  assert.equal(shown(), 'running')
  assert.deepEqual(vm().generations, { desired: 1, observed: 1 })
})

test('the size of a disk that the last look did not see is kept on record and marked', async (t) => {
  const { host, vm, create, idle, pokeAll } = await reconcileStage(t)
  create()
  await idle()
  const before = vm().observed.disk
  assert.ok(before !== undefined && before.unseen === undefined)
  host.storage.setInSight(false)
  pokeAll('pool gone')
  await idle()
  assert.deepEqual(vm().observed.disk, { ...before, unseen: true })
  host.storage.setInSight(true)
  pokeAll('pool found')
  await idle()
  assert.deepEqual(vm().observed.disk, before)
})

test('two faults at once are both shown, and the one that can be repaired is', async (t) => {
  const { host, vm, create, idle, pokeAll, later } = await reconcileStage(t)
  create()
  await idle()
  host.storage.setInSight(false)
  host.taps.failNext('ensure', fault('network_failed'))
  host.taps.devices.delete(vm().host.device)
  await idle()
  const found = (vm().observed.partialFaults ?? []).map(({ step, code }) => `${step} ${code}`)
  assert.deepEqual(found, ['storage.inspect storage_inspection_failed', 'network.inspect network_failed'])
  await later(60_000)
  assert.ok(host.taps.devices.has(vm().host.device), 'the tap does not wait for the pool')
  assert.deepEqual(
    (vm().observed.partialFaults ?? []).map(({ step }) => step),
    ['storage.inspect'],
  )
  host.storage.setInSight(true)
  pokeAll('pool found')
  await idle()
  assert.deepEqual([vm().observed.fault, vm().observed.partialFaults], [undefined, undefined])
  assert.deepEqual(host.ended, [])
})

test('a tap that its monitor changed is made again under the guest, and goes with its VM', async (t) => {
  const { host, context, id, vm, create, idle, later } = await reconcileStage(t)
  create()
  await idle()
  const { device, userId } = vm().host
  const look = async () => {
    const tap = await host.taps.inspect(device, id)
    assert.ok(tap.kind === 'present')
    return tap.facts
  }
  for (const change of [{ owner: 0 }, { group: 7 }, { macAddress: '02:76:00:00:00:07' }]) {
    host.taps.alter(device, change)
    await later(limits.unitRecheckMs)
    const { owner, group, macAddress, attached } = await look()
    assert.deepEqual([owner, group, macAddress, attached], [userId, undefined, GATEWAY_MAC, true])
  }
  assert.deepEqual([vm().observed.state, vm().observed.fault, host.ended], ['running', undefined, []])
  host.taps.alter(device, { owner: 0 })
  deleteVm(context, id)
  await idle()
  assert.deepEqual([...host.taps.devices.keys()], [])
})

test('a step that keeps failing does not delay the repair of anything else of a running guest', async (t) => {
  const { host, context, id, vm, create, shown, idle, later } = await reconcileStage(t)
  create()
  await idle()
  const readOnly = mock.method(host.storage, 'ensureDisk', () => Promise.reject(fault('storage_read_only')))
  setDisk(context, id, { sizeMib: 128 })
  await idle()
  assert.equal(shown(), 'failed storage_read_only')
  await later(limits.retryBackoffMsMax)
  // This happens in the middle of a back-off.
  host.firewall.flush()
  await idle()
  assert.equal((await host.firewall.inspect(vm().host.device)).kind, 'intact')
  await later(limits.unitRecheckMs)
  assert.equal(vm().observed.partialFaults, undefined, 'what was repaired no longer shows')
  assert.equal(shown(), 'failed storage_read_only')
  readOnly.mock.restore()
  await later(limits.retryBackoffMsMax)
  assert.equal(shown(), 'running')
})

test('while an inspection fails the state is what unit and guest show', async (t) => {
  const { host, context, id, create, shown, idle, noticed } = await reconcileStage(t)
  create()
  await idle()
  host.storage.setInSight(false)
  setPower(context, id, 'paused')
  await idle()
  await noticed()
  assert.equal(shown(), 'paused storage_inspection_failed')
  setPower(context, id, 'running')
  await idle()
  await noticed()
  assert.equal(shown(), 'running storage_inspection_failed')
  host.fakeUnits.exit(id, 0)
  host.monitor.ended(id)
  await noticed()
  assert.match(shown(), /^failed /, 'no guest, and none can be started')
  setPower(context, id, 'stopped')
  await idle()
  assert.equal(shown(), 'stopped')
})

test('a network that cannot be inspected twice in a row fails the VM, and one failed look does not', async (t) => {
  const { host, id, vm, create, shown, idle, noticed, later, lines } = await reconcileStage(t)
  create()
  await idle()
  const unseen = fault('firewall_failed')
  host.firewall.failNext('inspect', unseen)
  await noticed()
  assert.equal(shown(), 'running firewall_failed')
  await later(limits.retryBackoffMsMax)
  assert.equal(shown(), 'running', 'the next look is a good one')

  const blind = mock.method(host.firewall, 'inspect', () => Promise.reject(unseen))
  await noticed()
  await later(limits.retryBackoffMsMax)
  assert.equal(shown(), 'failed firewall_failed')
  assert.deepEqual(host.ended, [], 'the guest runs on')
  const line = lines.findLast(({ message }) => message === 'pass failed')
  assert.deepEqual(
    [line?.['vm_id'], line?.['step'], line?.['operation_id']],
    [id, 'network.inspect', vm().operationId],
  )
  blind.mock.restore()
  await later(limits.retryBackoffMsMax)
  assert.equal(shown(), 'running')
})

test('changes in quick succession are not a failure to converge', async (t) => {
  const { store, host, context, id, vm, create, shown, idle, turns } = await reconcileStage(t)
  create()
  await idle()
  const states = new Set<string>()
  store.onVmChange(() => states.add(shown()))
  let release = (): void => {}
  for (let change = 1; change <= 2 * limits.actingPassesMax; change += 1) {
    // Each change comes while the step for the one before it runs.
    const next = host.monitor.holdNext('ensureDiskLimits')
    setDisk(context, id, { sizeMib: 64, iopsMax: 100 + change })
    release()
    await turns()
    release = next
  }
  release()
  await idle()
  assert.deepEqual([...states], ['running'])
  assert.equal(vm().generations.observed, vm().generations.desired)
})

test('a VM created stopped is still made ready after a change that is not a stop', async (t) => {
  const { host, context, id, vm, create, idle, later } = await reconcileStage(t)
  host.storage.failNext('ensureImage', fault('network_failed'))
  create({ power: 'stopped' })
  await idle()
  setDisk(context, id, { sizeMib: 128 })
  await idle()
  await later(limits.retryBackoffMsMax)
  assert.equal(host.storage.disks.get(id)?.sizeMib, 128)
  assert.equal(vm().generations.observed, 2)
})

test('a guest that a full pool paused fails once, and each further attempt changes no state', async (t) => {
  const { store, host, id, create, shown, idle, noticed, later } = await reconcileStage(t)
  create()
  await idle()
  const states: string[] = []
  store.onVmChange(() => states.push(shown()))
  host.monitor.fillPool(id)
  await noticed()
  for (let attempt = 1; attempt <= 3; attempt += 1) await later(limits.retryBackoffMsMax)
  assert.deepEqual([...new Set(states)], ['paused', 'failed disk_io_error'])
  host.monitor.makeRoom(id)
  await later(limits.retryBackoffMsMax)
  assert.deepEqual([...new Set(states)], ['paused', 'failed disk_io_error', 'running'])
})

test('a disk that cannot be made fails once, each further attempt changes no state, and a change shows at once', async (t) => {
  const { store, host, context, id, create, shown, idle, later } = await reconcileStage(t)
  const states: string[] = []
  store.onVmChange(() => states.push(shown()))
  const making = mock.method(host.storage, 'ensureDisk', () => Promise.reject(fault('storage_read_only')))
  create()
  await idle()
  for (let attempt = 1; attempt <= 3; attempt += 1) await later(limits.retryBackoffMsMax)
  const failed = ['pending', 'failed storage_read_only']
  assert.deepEqual([...new Set(states)], failed)
  assert.equal(making.mock.callCount(), 4)
  making.mock.restore()
  setDisk(context, id, { sizeMib: 128 })
  await idle()
  assert.deepEqual([...new Set(states)].slice(0, 3), [...failed, 'pending storage_read_only'])
  assert.equal(shown(), 'running')
})

test('a guest whose start is tried again keeps the host from being drained', async (t) => {
  const { context, host, create, idle, turns, clock, shown } = await reconcileStage(t)
  host.fakeUnits.failNext('ensureStarted', fault('unit_start_failed'))
  create()
  await idle()
  assert.equal(shown(), 'failed unit_start_failed')
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const start = host.units.ensureStarted.bind(host.units)
  mock.method(host.units, 'ensureStarted', async (...args: Parameters<typeof start>) => {
    await held
    return start(...args)
  })
  clock.advance(limits.retryBackoffMsMax)
  await turns()
  assert.equal(shown(), 'starting unit_start_failed')
  const drain = { guests: 'sleep', graceSeconds: 0, atOnce: 1 } as const
  const { maintenance } = setMaintenance(context, { state: 'drained', drain })
  assert.equal(shownMaintenance(maintenance), 'draining')
  release()
  await idle()
})
