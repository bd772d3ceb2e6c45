/** A pool that takes long to clone a disk delays the VM for a bounded time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { limits } from '../../config/limits.ts'

test('a guest whose disk takes long to clone runs on, and is captured later', async (t) => {
  const { host, vmId, upload, take, quiet, shown, after } = await snapshotStage(t)
  host.staging.holdNext('clone')
  take(urlsOf(upload))
  await quiet()
  await after(limits.capturePauseMs - 1)
  assert.equal(host.monitor.stateOf(vmId).kind, 'paused')
  await after(1)
  assert.equal(host.monitor.stateOf(vmId).kind, 'running')
  assert.equal(host.monitor.frozen.has(vmId), false)
  assert.equal(shown(), 'capturing storage_failed')
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'completed')
})

test('a paused guest whose disk takes long to clone can run, and is captured later', async (t) => {
  const { context, host, vmId, upload, take, quiet, shown, after, vm } = await snapshotStage(t)
  setPower(context, vmId, 'paused')
  await quiet()
  host.staging.holdNext('clone')
  take(urlsOf(upload))
  await quiet()
  setPower(context, vmId, 'running')
  await after(limits.captureAtRestMs - 1)
  assert.equal(vm().observed.state, 'paused')
  await after(1)
  assert.equal(vm().observed.state, 'running')
  assert.equal(shown(), 'waiting storage_failed')
  await after(limits.retryBackoffMsMin)
  assert.equal(host.monitor.stateOf(vmId).kind, 'running')
  assert.equal(shown(), 'completed')
})

test('a hard stop does not wait for a clone that takes long', async (t) => {
  const { context, host, vmId, upload, take, quiet, vm, shown, after } = await snapshotStage(t)
  const cloned = host.staging.holdNext('clone')
  take(urlsOf(upload))
  await quiet()
  setPower(context, vmId, 'stopped')
  await quiet()
  assert.equal(vm().observed.state, 'stopped')
  cloned()
  await after(limits.captureRetryMs)
  assert.equal(shown(), 'completed')
})
