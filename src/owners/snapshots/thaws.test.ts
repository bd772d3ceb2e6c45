import assert from 'node:assert/strict'
import { test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { IDLE_MS, SLEEPER } from '../../../test/sleep-stage.ts'
import { stopsBefore } from '../../../test/stops-before.ts'
import { setCompute } from '../../commands/vm/reshape.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { limits } from '../../config/limits.ts'
import type { TestContext } from 'node:test'

type Stage = Awaited<ReturnType<typeof snapshotStage>>

/** Longer than any back-off, for any number of attempts. */
const LONG_MS = 2 * limits.retryBackoffMsMax

const isThawed = ({ host, store, vmId }: Stage): void => {
  assert.equal(host.monitor.stateOf(vmId).kind, 'running')
  assert.equal(host.monitor.frozen.has(vmId), false, 'the guest is frozen')
  assert.deepEqual(store.frozenGuests.all(), [])
}

const isFrozen = ({ host, store, vmId }: Stage): void => {
  assert.equal(host.monitor.frozen.has(vmId), true, 'the guest is not frozen')
  assert.deepEqual(store.frozenGuests.all(), [vmId])
}

/** Leaves the guest frozen, as an earlier daemon might have left it. */
const leaveFrozen = ({ host, store, vmId }: Stage): void => {
  store.frozenGuests.note(vmId)
  host.monitor.frozen.add(vmId)
}

test('a guest that was left frozen is thawed, though its snapshot is gone and it was paused meanwhile', async (t) => {
  const stage = await snapshotStage(t)
  const { context, vmId, quiet, restart } = stage
  setPower(context, vmId, 'paused')
  await quiet()
  leaveFrozen(stage)
  await restart()
  isFrozen(stage)
  setPower(context, vmId, 'running')
  await quiet()
  isThawed(stage)
})

test('a guest whose agent is busy after its capture is thawed as soon as the agent answers', async (t) => {
  const stage = await snapshotStage(t)
  const { host, vmId, upload, take, quiet, shown, after } = stage
  const captured = host.staging.holdNext('clone')
  take(urlsOf(upload))
  await quiet()
  host.monitor.busy.add(vmId)
  captured()
  await quiet()
  assert.equal(shown(), 'completed')
  isFrozen(stage)
  await after(LONG_MS)
  isFrozen(stage)
  host.monitor.busy.delete(vmId)
  await after(limits.retryBackoffMsMax)
  isThawed(stage)
})

test('a freeze and a thaw whose answers were lost are distinguished from thawed guests', async (t) => {
  const stage = await snapshotStage(t)
  const { host, store, vmId, upload, take, quiet, snap, after } = stage
  host.monitor.mute.add(vmId)
  take(urlsOf(upload))
  await quiet()
  assert.equal(snap().capture?.consistency, 'crash')
  assert.deepEqual(store.frozenGuests.all(), [vmId])
  host.monitor.mute.delete(vmId)
  await after(limits.retryBackoffMsMax)
  isThawed(stage)
})

test('a guest is not forgotten by a daemon that stops before its agent has answered', async (t) => {
  const stage = await snapshotStage(t)
  const { host, vmId, quiet, restart } = stage
  leaveFrozen(stage)
  host.monitor.busy.add(vmId)
  await restart()
  isFrozen(stage)
  host.monitor.busy.delete(vmId)
  await restart()
  await quiet()
  isThawed(stage)
})

test('an agent that is frozen from before, and does not answer, is not forgotten by another capture', async (t) => {
  const stage = await snapshotStage(t)
  const { host, vmId, upload, take, quiet, shown, after } = stage
  leaveFrozen(stage)
  host.monitor.busy.add(vmId)
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'completed')
  isFrozen(stage)
  host.monitor.busy.delete(vmId)
  await after(limits.retryBackoffMsMax)
  isThawed(stage)
})

test('a guest that goes to sleep frozen is thawed after it wakes', async (t) => {
  const stage = await snapshotStage(t)
  const { context, clock, host, vmId, vm, idle, quiet } = stage
  setCompute(context, vmId, SLEEPER)
  await quiet()
  leaveFrozen(stage)
  clock.advance(IDLE_MS)
  await idle()
  await quiet()
  assert.equal(vm().observed.state, 'sleeping')
  assert.deepEqual(stage.store.frozenGuests.all(), [vmId])
  host.traffic.receive(vm().host.device, { name: 'for the guest' })
  await idle()
  await quiet()
  isThawed(stage)
})

/** Lets the next thaw of a guest wait, and then fail. Returns the calls, and the function that ends the wait. */
function uselessThaw(t: TestContext, { host }: Stage) {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const thaws = t.mock.method(host.monitor.agent, 'thaw')
  thaws.mock.mockImplementationOnce(() => promise)
  return { thaws: () => thaws.mock.callCount(), answer: () => resolve(false) }
}

test('a guest that changes while it is being thawed is thawed again at once', async (t) => {
  const stage = await snapshotStage(t)
  const { store, clock, vmId, quiet, restart } = stage
  leaveFrozen(stage)
  const { answer } = uselessThaw(t, stage)
  await restart()
  store.vms.setGuestSeen(vmId, {}, clock.now() + 1)
  await quiet()
  isFrozen(stage)
  answer()
  await quiet()
  isThawed(stage)
})

test('a daemon that stops waits for a thaw that is under way, and begins no other', async (t) => {
  const stage = await snapshotStage(t)
  const { store, clock, vmId, quiet, restart, stopSnapshots, after } = stage
  leaveFrozen(stage)
  const { thaws, answer } = uselessThaw(t, stage)
  await restart()
  assert.ok(!(await stopsBefore(stopSnapshots, { settle: quiet, end: answer })))
  store.vms.setGuestSeen(vmId, {}, clock.now() + 1)
  await after(LONG_MS)
  assert.equal(thaws(), 1)
  isFrozen(stage)
})

test('a guest that has ended is not thawed', async (t) => {
  const stage = await snapshotStage(t)
  const { context, store, host, vmId, quiet } = stage
  host.monitor.busy.add(vmId)
  leaveFrozen(stage)
  setPower(context, vmId, 'stopped')
  await quiet()
  assert.deepEqual(store.frozenGuests.all(), [])
})

test('if no agent listens, a capture leaves nothing to thaw', async (t) => {
  const stage = await snapshotStage(t)
  const { host, vmId, upload, take, quiet, shown } = stage
  host.monitor.agents.delete(vmId)
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'completed')
  isThawed(stage)
})

test('a hard stop does not wait for a thaw without an answer', async (t) => {
  const stage = await snapshotStage(t)
  const { context, host, vmId, vm, upload, take, quiet } = stage
  host.monitor.holdNext('thaw')
  take(urlsOf(upload))
  await quiet()
  assert.equal(vm().observed.state, 'running')
  setPower(context, vmId, 'stopped')
  await quiet()
  assert.equal(vm().observed.state, 'stopped')
})

test('a guest is thawed although a bug ends the request to freeze it', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, snap } = stage
  host.monitor.failNext('freeze', new TypeError('on purpose'), 'after')
  take(urlsOf(upload))
  await quiet()
  assert.equal(snap().trouble?.code, 'bug')
  isThawed(stage)
})
