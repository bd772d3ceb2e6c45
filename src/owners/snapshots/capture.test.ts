import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bigDisk, imageIn, imageOf, snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { deleteVm } from '../../commands/vm/delete-vm.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { SnapshotId } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'

type Stage = Awaited<ReturnType<typeof snapshotStage>>

const runs = ({ host, vmId }: Stage): void => {
  assert.equal(host.monitor.stateOf(vmId).kind, 'running')
  assert.equal(host.monitor.frozen.has(vmId), false, 'the guest is frozen')
}

test('the disk of a running guest is captured with its file systems frozen, and the guest goes on', async (t) => {
  const stage = await snapshotStage(t)
  const { clock, host, store, vmId, upload, take, quiet, snap, keeps } = stage
  const captured = host.staging.holdNext('clone')
  take(urlsOf(upload))
  await quiet()
  assert.equal(snap().stage, 'capturing')
  assert.equal(host.monitor.stateOf(vmId).kind, 'paused')
  assert.equal(host.monitor.frozen.has(vmId), true)
  clock.advance(7)
  const thawed = host.monitor.holdNext('thaw')
  captured()
  await quiet()
  assert.equal(host.monitor.stateOf(vmId).kind, 'running', 'it is thawed before its worker looks')
  thawed()
  await quiet()
  runs(stage)
  assert.deepEqual(store.frozenGuests.all(), [])
  const { stage: at, capture, trouble } = snap()
  assert.deepEqual(
    [at, capture?.consistency, capture?.pausedMs, trouble],
    ['completed', 'file_system', 7, undefined],
  )
  const object = host.objectStore.objects.get('image-1')
  assert.ok(object !== undefined)
  assert.deepEqual(imageIn(object), imageOf(bigDisk('the disk')))
  assert.equal(await keeps(), 'all')
})

test('without an agent in the guest the image is what a loss of power would have left', async (t) => {
  const stage = await snapshotStage(t)
  const { host, vmId, upload, take, quiet, snap } = stage
  host.monitor.agents.delete(vmId)
  take(urlsOf(upload))
  await quiet()
  assert.deepEqual([snap().stage, snap().capture?.consistency], ['completed', 'crash'])
  runs(stage)
})

for (const power of ['paused', 'stopped'] as const) {
  test(`a VM that is ${power} is captured as it is, and stays so`, async (t) => {
    const { context, host, vmId, upload, take, quiet, snap, vm } = await snapshotStage(t)
    setPower(context, vmId, power)
    await quiet()
    take(urlsOf(upload))
    await quiet()
    const { stage, capture } = snap()
    assert.deepEqual([stage, capture?.consistency, capture?.pausedMs], ['completed', 'crash', 0])
    assert.equal(vm().observed.state, power)
    assert.equal(host.monitor.stateOf(vmId).kind, power === 'paused' ? 'paused' : 'silent')
  })
}

test('a guest that is paused while it is captured is thawed before it stops', async (t) => {
  const { context, host, vmId, upload, take, quiet, vm } = await snapshotStage(t)
  const captured = host.staging.holdNext('clone')
  take(urlsOf(upload))
  await quiet()
  setPower(context, vmId, 'paused')
  await quiet()
  captured()
  await quiet()
  assert.equal(vm().observed.state, 'paused')
  assert.equal(host.monitor.frozen.has(vmId), false)
})

test('a guest that is to end by itself is thawed, and then asked, while it is captured', async (t) => {
  const { context, host, vmId, upload, take, quiet, vm } = await snapshotStage(t)
  const captured = host.staging.holdNext('clone')
  take(urlsOf(upload))
  await quiet()
  assert.equal(host.monitor.frozen.has(vmId), true)
  setPower(context, vmId, 'stopped', { graceSeconds: 30 })
  await quiet()
  captured()
  assert.equal(vm().observed.lastStop?.kind, 'graceful')
})

test('a disk is not captured while the monitor of its guest is silent', async (t) => {
  const { host, vmId, upload, take, quiet, shown, after } = await snapshotStage(t)
  host.monitor.become(vmId, { kind: 'silent' })
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'waiting')
  host.monitor.become(vmId, { kind: 'running', disk: { sizeMib: 64 } })
  await after(limits.captureRetryMs)
  assert.equal(shown(), 'completed')
})

test('processes that are left of a VM may write to its disk, which is captured once they are gone', async (t) => {
  const { context, host, vmId, upload, take, quiet, shown, after } = await snapshotStage(t)
  setPower(context, vmId, 'stopped')
  await quiet()
  host.fakeUnits.leave(vmId)
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'waiting')
  await host.fakeUnits.ensureStopped(vmId, new AbortController().signal)
  await after(limits.captureRetryMs)
  assert.equal(shown(), 'completed')
})

for (const [method, where] of [
  ['freeze', 'frozen'],
  ['ensurePaused', 'paused'],
] as const) {
  for (const moment of ['before', 'after'] as const) {
    test(`a fault ${moment} a guest is ${where} leaves it running, and it is captured later`, async (t) => {
      const stage = await snapshotStage(t)
      const { host, upload, take, quiet, shown, after } = stage
      host.monitor.failNext(method, new HostFault('monitor_refused', 'on purpose'), moment)
      take(urlsOf(upload))
      await quiet()
      runs(stage)
      await after(limits.retryBackoffMsMax)
      assert.equal(shown(), 'completed')
      runs(stage)
    })
  }
}

test('a guest that does not resume right after its capture is resumed by its worker, and thawed then', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, shown, after } = stage
  host.monitor.failNext('ensureRunning', new HostFault('monitor_refused', 'on purpose'))
  take(urlsOf(upload))
  await quiet()
  await after(1000)
  runs(stage)
  assert.equal(shown(), 'completed')
})

for (const method of ['flushDisk', 'clone', 'keep'] as const) {
  test(`a ${method} that fails is retried, and its trouble shows until it succeeds`, async (t) => {
    const stage = await snapshotStage(t)
    const { host, upload, take, quiet, shown, snap, after, clock } = stage
    host.staging.failNext(method, new HostFault('storage_failed', 'on purpose'))
    take(urlsOf(upload))
    await quiet()
    assert.match(shown(), /^(waiting|capturing) storage_failed$/)
    assert.equal(snap().trouble?.nextAttemptAtMs, clock.now() + limits.retryBackoffMsMin)
    runs(stage)
    await after(limits.retryBackoffMsMin)
    assert.equal(shown(), 'completed')
  })
}

test('a pool without reflinks is trouble that shows, and no failure', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, shown, after } = stage
  host.staging.setReflink(false)
  take(urlsOf(upload))
  await after(10 * limits.retryBackoffMsMax)
  assert.equal(shown(), 'capturing snapshot_unsupported')
  runs(stage)
  host.staging.setReflink(true)
  await after(limits.retryBackoffMsMax)
  await quiet()
  assert.equal(shown(), 'completed')
})

for (const method of ['clone', 'keep'] as const) {
  test(`a ${method} in a full pool fails a capture for good and leaves nothing in staging`, async (t) => {
    const stage = await snapshotStage(t)
    const { host, store, id, upload, take, quiet, shown, snap, staged } = stage
    host.staging.failNext(method, new HostFault('storage_full', 'capturing the disk'), 'after')
    take(urlsOf(upload))
    await quiet()
    assert.deepEqual([shown(), snap().resumable], ['failed storage_full', false])
    assert.equal(await staged(), 0)
    await assert.rejects(host.staging.keep(snap().stagingId), { code: 'staging_lost' })
    assert.equal(store.snapshots.urlsAtHand(id).parts.size, 0)
    runs(stage)
  })
}

test('a VM whose disk is not made yet is captured as soon as it is', async (t) => {
  const { host, create, upload, turns, take, quiet, shown, snap, after, id } = await snapshotStage(t)
  const made = host.storage.holdNext('ensureDisk')
  create({ network: { ipv4Address: '192.0.2.11' } }, 'web-2' as VmId)
  await turns()
  take(urlsOf(upload), id, 'web-2' as VmId)
  await quiet()
  await after(limits.captureRetryMs)
  assert.equal(shown(), 'waiting vm_unsettled')
  assert.equal(
    snap().trouble?.message,
    'waiting for VM web-2: its disk is not made yet; if nothing makes it, start the VM',
  )
  made()
  await quiet()
  assert.equal(shown(), 'completed')
})

test('a disk of another VM that has the name of this one is not captured', async (t) => {
  const { host, clock, vmId, upload, take, quiet, shown, snap, after, staged } = await snapshotStage(t)
  const disk = host.storage.disks.get(vmId) ?? assert.fail('there is no disk')
  const note = disk.note ?? assert.fail('it has no note')
  const mark = { ...note.mark, createdAtMs: note.mark.createdAtMs + 1 }
  host.storage.disks.set(vmId, { ...disk, note: { ...note, mark } })
  take(urlsOf(upload))
  await quiet()
  await after(limits.captureRetryMs)
  assert.deepEqual([shown(), await staged()], ['waiting vm_unsettled', 0])
  await after(20 * limits.retryBackoffMsMax)
  const { nextAttemptAtMs = assert.fail('no further try') } = snap().trouble ?? {}
  assert.ok(nextAttemptAtMs - clock.now() <= limits.retryBackoffMsMax)
})

test('a snapshot whose VM is deleted before it is captured has failed', async (t) => {
  const { context, host, vmId, upload, take, quiet, shown, after } = await snapshotStage(t)
  host.staging.failNext('flushDisk', new HostFault('storage_failed', 'on purpose'))
  take(urlsOf(upload))
  await quiet()
  deleteVm(context, vmId)
  await quiet()
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'failed vm_gone')
})

test('a VM whose deletion takes long is not captured any more', async (t) => {
  const { context, host, vmId, upload, take, quiet, shown, after, staged } = await snapshotStage(t)
  host.staging.failNext('flushDisk', new HostFault('storage_failed', 'on purpose'))
  take(urlsOf(upload))
  await quiet()
  t.mock.method(host.storage, 'remove', async () => {
    throw new HostFault('storage_failed', 'on purpose')
  })
  deleteVm(context, vmId)
  await quiet()
  await after(limits.retryBackoffMsMin)
  assert.deepEqual([shown(), await staged()], ['failed vm_gone', 0])
})

test('a snapshot is of the VM that it was asked of, and not of another that has its id since', async (t) => {
  const stage = await snapshotStage(t)
  const { context, create, vmId, upload, take, quiet, shown, after, stopSnapshots, restart, clock } = stage
  await stopSnapshots()
  take(urlsOf(upload))
  deleteVm(context, vmId)
  await quiet()
  clock.advance(1)
  create()
  await quiet()
  await restart()
  await after(0)
  assert.equal(shown(), 'failed vm_gone')
})

test('a hard stop does not wait for a capture, which then captures the stopped VM', async (t) => {
  const { context, host, vmId, upload, take, quiet, vm, shown, snap, after } = await snapshotStage(t)
  host.monitor.holdNext('ensurePaused')
  take(urlsOf(upload))
  await quiet()
  setPower(context, vmId, 'stopped')
  await quiet()
  assert.equal(vm().observed.state, 'stopped')
  await after(limits.captureRetryMs)
  assert.deepEqual([shown(), snap().capture?.pausedMs], ['completed', 0])
})

test('a snapshot that is deleted in the middle of its capture leaves a running guest and no staging', async (t) => {
  const stage = await snapshotStage(t)
  const { host, find, upload, take, drop, quiet, staged } = stage
  const captured = host.staging.holdNext('clone')
  take(urlsOf(upload))
  await quiet()
  drop()
  captured()
  await quiet()
  runs(stage)
  assert.deepEqual([find(), await staged()], [undefined, 0])
})

test('a snapshot that is deleted while its VM is in a long pass makes room for another of its id at once', async (t) => {
  const { context, host, create, vmId, id, upload, take, drop, quiet, shown, turns } = await snapshotStage(t)
  create({ network: { ipv4Address: '192.0.2.11' } }, 'web-2' as VmId)
  await quiet()
  const paused = host.monitor.holdNext('ensurePaused')
  setPower(context, vmId, 'paused')
  await turns()
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'waiting')
  drop()
  take(urlsOf(host.objectStore.openUpload('image-2')), id, 'web-2' as VmId)
  await quiet()
  assert.equal(shown(), 'completed')
  paused()
  await quiet()
  assert.equal(host.objectStore.objects.has('image-1'), false)
})

test('a daemon that stops in the middle of a capture leaves a running guest, and the next takes it', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, restart, shown, after } = stage
  host.monitor.holdNext('ensurePaused')
  take(urlsOf(upload))
  await quiet()
  await restart()
  await after(limits.captureRetryMs)
  runs(stage)
  assert.equal(shown(), 'completed')
})

test('a guest runs on while its clone is made to last, and its worker acts', async (t) => {
  const stage = await snapshotStage(t)
  const { context, host, vmId, upload, take, quiet, vm, shown } = stage
  const kept = host.staging.holdNext('keep')
  take(urlsOf(upload))
  await quiet()
  runs(stage)
  assert.equal(shown(), 'capturing')
  setPower(context, vmId, 'paused')
  await quiet()
  assert.equal(vm().observed.state, 'paused')
  kept()
  await quiet()
  assert.equal(shown(), 'completed')
})

test('what a capture waits for is shown after its second try, until it is captured', async (t) => {
  const { context, host, vmId, upload, take, quiet, shown, snap, after } = await snapshotStage(t)
  setPower(context, vmId, 'stopped')
  await quiet()
  host.fakeUnits.leave(vmId)
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'waiting')
  await after(limits.captureRetryMs)
  assert.equal(shown(), 'waiting vm_unsettled')
  assert.match(snap().trouble?.message ?? '', /waiting for VM web-1: processes are left/)
  await host.fakeUnits.ensureStopped(vmId, new AbortController().signal)
  setPower(context, vmId, 'running')
  await quiet()
  assert.equal(shown(), 'completed')
})

test('two snapshots of one VM are captured one after the other', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, shown, snap } = stage
  const other = 'snap-2' as SnapshotId
  const captured = host.staging.holdNext('clone')
  take(urlsOf(upload))
  take(urlsOf(host.objectStore.openUpload('image-2')), other)
  await quiet()
  assert.deepEqual([shown(), shown(other)], ['capturing', 'waiting'])
  captured()
  await quiet()
  assert.deepEqual(
    [snap().capture?.consistency, snap(other).capture?.consistency],
    ['file_system', 'file_system'],
  )
  runs(stage)
})

test('each log line about a snapshot names it, its VM and its operation', async (t) => {
  const { lines, upload, take, quiet, id, vmId, snap } = await snapshotStage(t)
  take(urlsOf(upload))
  await quiet()
  const messages = lines.filter(({ level }) => level === 'info').map(({ message }) => message)
  assert.deepEqual(messages, [
    'snapshot request accepted',
    'snapshot under way',
    'snapshot captured',
    'snapshot packed',
    'snapshot sent',
    'snapshot completed',
  ])
  for (const line of lines)
    assert.deepEqual(
      [line['snapshot_id'], line['vm_id'], line['operation_id']],
      [id, vmId, snap().operationId],
    )
})
