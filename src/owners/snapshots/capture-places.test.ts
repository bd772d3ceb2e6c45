import assert from 'node:assert/strict'
import { test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { SnapshotId } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'

test('the passes of a VM go on while its capture waits for others', async (t) => {
  const { context, host, store, create, take, turns, quiet, shown } = await snapshotStage(t)
  const vms = Array.from({ length: limits.capturesMax + 1 }, (_, at) => `web-${at + 2}` as VmId)
  for (const [at, vm] of vms.entries()) create({ network: { ipv4Address: `192.0.2.${20 + at}` } }, vm)
  await quiet()
  const held = vms.slice(1).map(() => host.staging.holdNext('clone'))
  for (const vm of vms) {
    take({ firstPart: 1, parts: [] }, `of-${vm}` as SnapshotId, vm)
    await turns()
  }
  const last = vms.at(-1) as VmId
  assert.equal(shown(`of-${last}` as SnapshotId), 'waiting')
  setPower(context, last, 'paused')
  await quiet()
  assert.equal(store.vms.get(last)?.observed.state, 'paused')
  for (const release of held) release()
  await quiet()
  assert.deepEqual(
    vms.map((vm) => shown(`of-${vm}` as SnapshotId)),
    vms.map(() => 'sending'),
  )
})

test('snapshots of VMs in a long pass keep no snapshot of another VM waiting', async (t) => {
  const { context, host, vmId, upload, create, take, turns, quiet, shown, after } = await snapshotStage(t)
  const vms = Array.from({ length: limits.capturesMax }, (_, at) => `web-${at + 2}` as VmId)
  for (const [at, vm] of vms.entries()) create({ network: { ipv4Address: `192.0.2.${20 + at}` } }, vm)
  await quiet()
  const held = vms.map(() => host.monitor.holdNext('ensurePaused'))
  for (const vm of vms) setPower(context, vm, 'paused')
  await turns()
  for (const vm of vms) take({ firstPart: 1, parts: [] }, `of-${vm}` as SnapshotId, vm)
  await quiet()
  take(urlsOf(upload), 'mine' as SnapshotId, vmId)
  await quiet()
  await after(limits.captureRetryMs)
  assert.equal(shown('mine' as SnapshotId), 'completed')
  for (const release of held) release()
  await quiet()
  await after(limits.captureRetryMs)
  assert.deepEqual(
    vms.map((vm) => shown(`of-${vm}` as SnapshotId)),
    vms.map(() => 'sending'),
  )
})

test('a capture that waited too long for a pass of its VM does not begin after that pass', async (t) => {
  const { context, host, vmId, upload, take, turns, quiet, shown, after } = await snapshotStage(t)
  const paused = host.monitor.holdNext('ensurePaused')
  setPower(context, vmId, 'paused')
  await turns()
  const clones = t.mock.method(host.staging, 'clone')
  take(urlsOf(upload))
  await quiet()
  await after(limits.captureRetryMs)
  paused()
  await quiet()
  await after(limits.captureRetryMs)
  assert.equal(shown(), 'completed')
  assert.equal(clones.mock.callCount(), 1)
})

test('a capture that the pool failed is not tried sooner because its VM changes', async (t) => {
  const { context, host, vmId, upload, take, quiet, shown, after } = await snapshotStage(t)
  host.staging.failNext('flushDisk', new HostFault('storage_failed', 'on purpose'))
  take(urlsOf(upload))
  await quiet()
  setPower(context, vmId, 'stopped')
  await quiet()
  assert.equal(shown(), 'waiting storage_failed')
  await after(2 * limits.retryBackoffMsMin)
  assert.equal(shown(), 'completed')
})
