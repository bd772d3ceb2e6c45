import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, mock, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { createVm } from '../commands/create-vm.ts'
import { deleteVm } from '../commands/delete-vm.ts'
import { setPower } from '../commands/set-power.ts'
import { HostFault } from '../core/errors.ts'
import { silentLog } from '../log/log.ts'
import { Store } from '../store/store.ts'
import { FakeClock } from '../../test/fakes/fake-clock.ts'
import { FakeCapacity } from '../../test/fakes/fake-capacity.ts'
import { FakeHost } from '../../test/fakes/fake-host.ts'
import { Reconciler } from './reconciler.ts'
import { sweepOrphans } from './sweep-orphans.ts'
import type { CommandContext } from '../commands/context.ts'
import type { ImageRole } from '../core/vm/desired.ts'
import type { OperationId, Sha256, VmId } from '../core/vm/ids.ts'
import type { VmRecord } from '../core/vm/record.ts'

const id = 'web-1' as VmId
let directory: string
let store: Store
let clock: FakeClock
let host: FakeHost
let reconciler: Reconciler
let commands: CommandContext

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'vmhostd-reconcile-'))
  // A disk that flushes at once: turns of the event loop stand for time here.
  store = new Store(directory, { first: 600_000, count: 10 }, async () => {})
  clock = new FakeClock()
  host = new FakeHost(clock, store.storeId)
  await startReconciler()
})

afterEach(async () => {
  await reconciler.stop()
  store.close()
  rmSync(directory, { recursive: true })
})

async function startReconciler(): Promise<void> {
  reconciler = new Reconciler({ store, host, log: silentLog })
  let operations = 0
  commands = {
    store,
    capacity: new FakeCapacity(),
    guestRanges: [],
    now: () => clock.now(),
    newOperationId: () => `op-${(operations += 1)}` as OperationId,
    poke: (vm, reason) => reconciler.poke(vm, reason),
  }
  await reconciler.start()
}

const image = (role: ImageRole) => {
  const content = Buffer.from(role)
  const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
  return { role, sha256, source: host.storage.offer(content) }
}

const create = (): void => {
  createVm(commands, id, {
    power: 'running',
    compute: { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 },
    disk: { sizeMib: 64 },
    image: { images: [image('rootfs'), image('kernel')] },
    network: { ipv4Address: '192.0.2.10' },
    metadata: { labels: {}, protected: false },
    sshAuthorizedKeys: [],
  })
}

const vm = (): VmRecord => {
  const record = store.vms.get(id)
  assert.ok(record !== undefined, 'the VM is gone')
  return record
}

const fault = (code: 'network_failed' | 'unit_start_failed') => new HostFault(code, 'on purpose')

/** Turns of the event loop that give anything which does not wait for time the chance to go on. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await setImmediate()
}

test('a new VM runs, and its generation is published', async () => {
  create()
  await reconciler.idle()
  assert.equal(vm().observed.state, 'running')
  assert.deepEqual(vm().generations, { desired: 1, observed: 1 })
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
})

test('a deletion ends a download that is under way, and leaves nothing', async () => {
  host.storage.holdNext('ensureImage')
  create()
  await turns()
  assert.equal(vm().observed.state, 'pending')
  deleteVm(commands, id)
  await reconciler.idle()
  assert.equal(store.vms.get(id), undefined)
  assert.deepEqual(await host.storage.list(), [])
  assert.deepEqual([...host.taps.devices.keys()], [])
})

test('a stop during a download ends it and does not start the guest', async () => {
  host.storage.holdNext('ensureImage')
  create()
  await turns()
  setPower(commands, id, 'stopped')
  await reconciler.idle()
  assert.equal(vm().observed.state, 'stopped')
  assert.equal(vm().generations.observed, 2)
  assert.deepEqual(host.ended, [])
})

test('a change that ends nothing waits for the running step', async () => {
  const release = host.storage.holdNext('ensureImage')
  create()
  await turns()
  setPower(commands, id, 'paused')
  await turns()
  assert.equal(vm().observed.state, 'pending')
  release()
  await reconciler.idle()
  assert.equal(vm().observed.state, 'paused')
})

test('a failed step shows its fault and is tried again after the back-off, not before', async () => {
  host.taps.failNext('ensure', fault('network_failed'))
  create()
  await reconciler.idle()
  const shown = vm().observed
  assert.equal(shown.state, 'failed')
  assert.deepEqual(
    [shown.fault?.code, shown.fault?.step, shown.fault?.attempt],
    ['network_failed', 'network.ensure-tap', 1],
  )
  clock.advance(999)
  await reconciler.idle()
  assert.equal(vm().observed.state, 'failed')
  clock.advance(1)
  await reconciler.idle()
  assert.deepEqual([vm().observed.state, vm().observed.fault], ['running', undefined])
})

test('a watcher does not cut a back-off short, and a change does', async () => {
  host.fakeUnits.failNext('ensureStarted', fault('unit_start_failed'))
  create()
  await reconciler.idle()
  host.fakeUnits.reconnect()
  await reconciler.idle()
  assert.equal(vm().observed.state, 'failed')
  setPower(commands, id, 'paused')
  await reconciler.idle()
  assert.deepEqual([vm().observed.state, vm().observed.fault], ['paused', undefined])
})

test('a guest that ends by itself fails, waits longer each time, and starts again', async () => {
  create()
  await reconciler.idle()
  const attempts: unknown[] = []
  for (const waitMs of [1000, 2000, 4000]) {
    host.fakeUnits.exit(id, 1)
    host.monitor.ended(id)
    await reconciler.idle()
    const { state, fault: seen } = vm().observed
    attempts.push([state, seen?.code, (seen?.nextAttemptAtMs ?? 0) - clock.now()])
    clock.advance(waitMs)
    await reconciler.idle()
    assert.equal(vm().observed.state, 'running')
  }
  assert.deepEqual(attempts, [
    ['failed', 'vm_exited', 1000],
    ['failed', 'vm_exited', 2000],
    ['failed', 'vm_exited', 4000],
  ])
  assert.deepEqual(vm().generations, { desired: 1, observed: 1 })
})

test('a guest that ran for long starts a new row of exits', async () => {
  create()
  await reconciler.idle()
  for (const ranMs of [0, 3_600_000]) {
    clock.advance(ranMs)
    host.fakeUnits.exit(id, 0)
    host.monitor.ended(id)
    await reconciler.idle()
    assert.equal(vm().observed.fault?.attempt, 1)
    clock.advance(1000)
    await reconciler.idle()
  }
})

test('a host that rebooted starts its VMs again without calling it an exit', async () => {
  create()
  await reconciler.idle()
  await reconciler.stop()
  host.fakeUnits.exit(id, 0)
  host.monitor.ended(id)
  host.bootId = 'boot-2'
  await startReconciler()
  await reconciler.idle()
  assert.deepEqual([vm().observed.state, vm().exitStreak], ['running', 0])
})

test('a restarted daemon adopts a running guest and does nothing to it', async () => {
  create()
  await reconciler.idle()
  const unit = host.fakeUnits.stateOf(id)
  await reconciler.stop()
  await startReconciler()
  await reconciler.idle()
  assert.deepEqual(host.fakeUnits.stateOf(id), unit)
  assert.deepEqual(host.ended, [])
  assert.equal(vm().observed.state, 'running')
})

test('a stop of the daemon waits for no download and leaves guests alone', async () => {
  create()
  await reconciler.idle()
  await reconciler.stop()
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
  setPower(commands, id, 'stopped')
  await turns()
  assert.equal(host.fakeUnits.stateOf(id).kind, 'active')
})

test('a pool out of sight shows why, changes no state, and heals', async () => {
  create()
  await reconciler.idle()
  host.storage.setInSight(false)
  host.fakeUnits.reconnect()
  await reconciler.idle()
  assert.deepEqual([vm().observed.state, vm().observed.fault?.code], ['running', 'storage_inspection_failed'])
  host.storage.setInSight(true)
  clock.advance(60_000)
  await reconciler.idle()
  assert.deepEqual([vm().observed.state, vm().observed.fault], ['running', undefined])
})

test('a bug in the pass of one VM is shown on it and does not end the daemon', async () => {
  const looked = mock.method(host.taps, 'inspect', () => Promise.reject(new TypeError('a bug')))
  create()
  await reconciler.idle()
  assert.deepEqual([vm().observed.state, vm().observed.fault?.code], ['failed', 'bug'])
  looked.mock.restore()
  setPower(commands, id, 'stopped')
  await reconciler.idle()
  assert.equal(vm().observed.state, 'stopped')
})

/** A unit like that of the VM on record, under a name that is on no record. */
async function startUnit(name: string, storeId = store.storeId): Promise<void> {
  const spec = host.fakeUnits.specOf(id)
  assert.ok(spec !== undefined)
  await host.fakeUnits.ensureStarted(name as VmId, { ...spec, storeId }, new AbortController().signal)
}

test('a sweep ends orphans of this store and leaves those of another alone', async () => {
  create()
  await reconciler.idle()
  await startUnit('orphan')
  await host.consoles.ensureMaster('orphan' as VmId)
  await startUnit('foreign', 'another')
  await host.consoles.ensureMaster('foreign' as VmId)
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal)
  const left = (await host.units.list()).map((unit) => unit.id)
  assert.deepEqual(left.toSorted(), ['foreign', id])
  assert.deepEqual([...(await host.consoles.list())].toSorted(), ['foreign', id])
})

test('a sweep removes nothing when a listing fails', async () => {
  create()
  await reconciler.idle()
  await startUnit('orphan')
  host.taps.failNext('list', fault('network_failed'))
  await sweepOrphans({ store, host, log: silentLog }, new AbortController().signal)
  assert.equal(host.fakeUnits.stateOf('orphan' as VmId).kind, 'active')
})
