import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { setPower } from '../../commands/vm/set-power.ts'
import { limits } from '../../config/limits.ts'
import type { SnapshotId, StagingId } from '../../core/snapshots/record.ts'

type Stage = Awaited<ReturnType<typeof snapshotStage>>

const stray = 'stray.op-1' as StagingId
const other = 'snap-2' as SnapshotId
const fails = (): never => {
  throw new Error('disk I/O error')
}

/** Makes staging without a record, which only a sweep removes. */
async function makeStray({ host, vmId }: Stage): Promise<void> {
  await host.staging.clone(stray, vmId)
  await host.staging.keep(stray)
}

for (const [what, unreadable] of [
  ['unfinished snapshots', ({ store }: Stage) => mock.method(store.snapshots, 'unfinished')],
  ['frozen guests', ({ store }: Stage) => mock.method(store.frozenGuests, 'all')],
] as const) {
  test(`${what} that cannot be read for a while end neither the sweeps nor the daemon`, async (t) => {
    const stage = await snapshotStage(t)
    const { after, staged } = stage
    const read = unreadable(stage)
    read.mock.mockImplementationOnce(fails)
    await after(limits.stagingSweepMs)
    assert.equal(read.mock.callCount(), 1)
    await makeStray(stage)
    await after(limits.stagingSweepMs)
    assert.equal(await staged(), 0)
  })
}

test('a snapshot that cannot be read keeps a sweep neither from other courses nor from staging', async (t) => {
  const stage = await snapshotStage(t)
  const { host, store, upload, id, take, quiet, shown, after, staged } = stage
  const parts = store.snapshots.parts.bind(store.snapshots)
  const read = mock.method(store.snapshots, 'parts', fails)
  take(urlsOf(upload))
  take(urlsOf(host.objectStore.openUpload('image-2')), other)
  await quiet()
  assert.deepEqual([shown(), shown(other)], ['waiting', 'waiting'])
  await makeStray(stage)
  read.mock.mockImplementation((of: SnapshotId) => (of === id ? fails() : parts(of)))
  await after(limits.stagingSweepMs)
  assert.deepEqual([shown(), shown(other), await staged()], ['waiting', 'completed', 1])
  read.mock.restore()
  await after(limits.stagingSweepMs)
  assert.equal(shown(), 'completed')
})

test('a course whose first look at its record fails begins later', async (t) => {
  const { store, upload, take, quiet, shown, after } = await snapshotStage(t)
  const urlsAtHand = store.snapshots.urlsAtHand.bind(store.snapshots)
  // The course reads its URLs, and then its record.
  mock.method(store.snapshots, 'urlsAtHand').mock.mockImplementationOnce((of: SnapshotId) => {
    mock.method(store.snapshots, 'get').mock.mockImplementationOnce(fails)
    return urlsAtHand(of)
  })
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'waiting')
  await after(limits.retryBackoffMsMax)
  assert.equal(shown(), 'completed')
})

for (const [when, isHeld] of [
  ['waits for its next thaw', false],
  ['changed during its thaw', true],
] as const) {
  test(`a guest that ${when}, and whose note cannot be read then, is thawed later`, async (t) => {
    const { context, host, store, vmId, quiet, restart, after } = await snapshotStage(t)
    store.frozenGuests.note(vmId)
    host.monitor.frozen.add(vmId)
    host.monitor.busy.add(vmId)
    const release = isHeld ? host.monitor.holdNext('thaw') : () => {}
    await restart()
    if (isHeld) setPower(context, vmId, 'running')
    await quiet()
    const read = mock.method(store.frozenGuests, 'has')
    read.mock.mockImplementationOnce(fails)
    release()
    await after(limits.retryBackoffMsMin)
    assert.ok(read.mock.callCount() > 0)
    host.monitor.busy.delete(vmId)
    await after(limits.retryBackoffMsMax)
    assert.equal(host.monitor.frozen.has(vmId), false)
  })
}

test('fresh URLs are used although they could not be read when they came', async (t) => {
  const { store, upload, take, handOver, quiet, shown, after } = await snapshotStage(t)
  take(urlsOf(upload, 0))
  await quiet()
  assert.equal(shown(), 'sending')
  mock.method(store.snapshots, 'urlsAtHand').mock.mockImplementationOnce(fails)
  handOver(urlsOf(upload))
  await quiet()
  await after(limits.retryBackoffMsMax)
  assert.equal(shown(), 'completed')
})
