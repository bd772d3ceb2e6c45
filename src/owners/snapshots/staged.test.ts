import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { noise, MIB, snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { HostInspector } from '../capacity/host-inspector.ts'
import { DAY_MS, HOUR_MS } from '../../lib/time-units.ts'
import type { SnapshotId, StagingId } from '../../core/snapshots/record.ts'

type Stage = Awaited<ReturnType<typeof snapshotStage>>

/** Maximum number of parts of any snapshot in these tests. */
const PARTS_MAX = 8
const NO_URLS = { firstPart: 1, parts: [] }
const [second, third] = ['snap-2', 'snap-3'] as [SnapshotId, SnapshotId]
const fault = (): HostFault => new HostFault('storage_failed', 'on purpose')

/** Takes a snapshot up to its end, some time after the ones before it. */
async function complete({ host, take, quiet, clock, shown }: Stage, of: SnapshotId): Promise<void> {
  clock.advance(1000)
  take(urlsOf(host.objectStore.openUpload(of), PARTS_MAX), of)
  await quiet()
  assert.equal(shown(of), 'completed')
}

/** Begins a sweep that removes staging without a record when the returned function is called. */
async function sweepSlowly({ host, vmId, after }: Stage): Promise<() => void> {
  const stray = 'stray.op-1' as StagingId
  await host.staging.clone(stray, vmId)
  await host.staging.keep(stray)
  const removed = host.staging.holdNext('remove')
  await after(limits.stagingSweepMs)
  return removed
}

test('sent parts stay in staging until the snapshot is deleted, over restarts; the clone does not', async (t) => {
  const stage = await snapshotStage(t)
  const { host, id, drop, quiet, restart, staged, keeps, snap } = stage
  await complete(stage, id)
  assert.equal(await keeps(id), 'all')
  assert.equal((await host.staging.list())[0]?.cloneBytes, 0)
  const { staged: before, lastActivityAtMs } = snap()
  await restart()
  await quiet()
  assert.equal(await keeps(id), 'all')
  assert.deepEqual([snap().staged, snap().lastActivityAtMs], [before, lastActivityAtMs])
  drop()
  await quiet()
  assert.equal(await staged(), 0)
})

test('sent parts of an unfinished snapshot stay as well', async (t) => {
  const { id, upload, take, quiet, shown, keeps } = await snapshotStage(t)
  const { complete: _later, ...parts } = urlsOf(upload)
  take(parts)
  await quiet()
  assert.deepEqual([shown(), await keeps(id)], ['sending', 'all'])
})

test('staging of a completed snapshot goes when nothing moved for long, over restarts; its record stays', async (t) => {
  const stage = await snapshotStage(t)
  const { id, clock, shown, snap, restart, after, staged, keeps } = stage
  await complete(stage, id)
  for (const hour of [7, 14, 21]) {
    clock.set(7 * HOUR_MS)
    await restart()
    assert.equal(await keeps(id), 'all', `${hour} h`)
  }
  clock.set(3 * HOUR_MS - 2 * limits.stagingSweepMs)
  await after(limits.stagingSweepMs)
  assert.equal(await keeps(id), 'all')
  await after(limits.stagingSweepMs)
  assert.deepEqual([shown(), snap().staged.bytes, await staged()], ['completed', 0, 0])
})

test('staging that became stale stays until the record that says so is on the disk', async (t) => {
  let flushing: Promise<void> = Promise.resolve()
  const stage = await snapshotStage(t, { flush: () => flushing })
  const { id, clock, quiet, snap, after, staged } = stage
  await complete(stage, id)
  const disk = Promise.withResolvers<void>()
  flushing = disk.promise
  clock.set(DAY_MS)
  await after(limits.stagingSweepMs)
  const seen = [snap().staged.bytes, await staged()]
  // Before a check can fail: the daemon that is stopped then waits for this.
  disk.resolve()
  await quiet()
  assert.deepEqual([seen, await staged()], [[0, 1], 0])
})

test('when there is no room, staging of completed snapshots goes first, and the oldest of those', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 9 })
  const { id, upload, take, quiet, keeps, store } = stage
  const { complete: _later, ...parts } = urlsOf(upload)
  take(parts)
  await quiet()
  await complete(stage, third)
  await complete(stage, second)
  const order: string[] = []
  store.onSnapshotChange((of) => {
    if (store.snapshots.get(of)?.staged.isWhole === false && !order.includes(of)) order.push(of)
  })
  await complete(stage, 'snap-4' as SnapshotId)
  assert.deepEqual(order, [third])
  assert.deepEqual([await keeps(third), await keeps(second), await keeps(id)], ['none', 'all', 'all'])
  await complete(stage, 'snap-5' as SnapshotId)
  await complete(stage, 'snap-6' as SnapshotId)
  assert.deepEqual(order, [third, second, 'snap-4'])
  assert.equal(await keeps(id), 'all', 'one under way gave room while completed ones had some')
})

test('when completed snapshots have no room left to give, sent parts of others are removed', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 4 })
  const { id, upload, take, handOver, quiet, shown, keeps, store } = stage
  const { complete: end, parts } = urlsOf(upload)
  take({ firstPart: 1, parts: parts.slice(0, 2) })
  await quiet()
  await complete(stage, second)
  assert.equal(await keeps(id), 'unsent')
  assert.deepEqual(
    store.snapshots.parts(id).map(({ etag }) => etag !== undefined),
    [true, true, false],
  )
  handOver({ firstPart: 3, parts: parts.slice(2), ...(end && { complete: end }) })
  await quiet()
  assert.deepEqual([shown(), await keeps(id)], ['completed', 'none'])
})

test('a snapshot that is larger than the quota is completed, and nothing of it stays', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 2 })
  const { host, vmId, id, keeps, staged } = stage
  host.diskContents.set(vmId, { content: noise('seven parts', 6.5 * MIB), sizeBytes: 7 * MIB })
  await complete(stage, id)
  assert.deepEqual([await keeps(id), await staged()], ['none', 0])
})

test('a quota that was made smaller is kept once the daemon is back', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 6 })
  const { id, restart, quiet, keeps } = stage
  await complete(stage, id)
  await complete(stage, second)
  stage.setQuotaMib(4)
  await restart()
  await quiet()
  assert.deepEqual([await keeps(id), await keeps(second)], ['none', 'all'])
})

test('a quota that became larger lets a pack go on after the next sweep', async (t) => {
  const quota = t.mock.method(HostInspector.prototype, 'stagingQuotaMib', () => 2)
  const { take, quiet, after, shown } = await snapshotStage(t)
  take(NO_URLS)
  await quiet()
  quota.mock.mockImplementation(() => 64)
  await quiet()
  assert.equal(shown(), 'packing')
  await after(limits.stagingSweepMs)
  assert.equal(shown(), 'sending')
})

test('a record says that nothing is staged before it is removed, so that a crash leaves no false record', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 4 })
  const { host, id, quiet, snap, take, restart, staged, keeps } = stage
  await complete(stage, id)
  const removed = host.staging.holdNext('remove')
  take(NO_URLS, second)
  await quiet()
  assert.deepEqual([snap().staged.bytes, await staged()], [0, 2])
  // Simulates a daemon that dies here; the next daemon removes the staging.
  host.staging.failNext('remove', fault())
  removed()
  await quiet()
  await restart()
  assert.deepEqual([await staged(), await keeps(second)], [1, 'all'])
})

test('only as much is given up as room is needed, even if the pool fails', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 6 })
  const { host, id, quiet, after, take, keeps, snap, shown } = stage
  await complete(stage, id)
  await complete(stage, second)
  host.staging.failNext('list', new HostFault('storage_inspection_failed', 'on purpose'))
  take(NO_URLS, third)
  await quiet()
  assert.deepEqual([snap(id).staged.isWhole, snap(second).staged.isWhole], [true, true], 'out of sight')
  for (let round = 0; round < 3; round += 1) {
    host.staging.failNext('remove', fault())
    await after(limits.retryBackoffMsMax)
    assert.deepEqual([snap(id).staged.bytes, shown(third)], [0, 'packing'], `round ${round}`)
  }
  await after(limits.retryBackoffMsMax)
  assert.deepEqual([await keeps(id), await keeps(second), shown(third)], ['none', 'all', 'sending'])
})

test('what is packed during a slow sweep counts after it', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 6 })
  const { id, quiet, keeps } = stage
  const removed = await sweepSlowly(stage)
  await complete(stage, id)
  removed()
  await quiet()
  await complete(stage, second)
  await complete(stage, third)
  assert.deepEqual([await keeps(id), await keeps(second), await keeps(third)], ['none', 'all', 'all'])
})

test('staging of a deleted snapshot that cannot be removed counts until it is', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 4 })
  const { host, take, drop, quiet, after, shown, staged } = stage
  take(NO_URLS)
  take(NO_URLS, second)
  await quiet()
  // One try is that of the snapshot, and one that of the sweep.
  for (const _ of ['snapshot', 'sweep']) host.staging.failNext('remove', fault())
  drop()
  await quiet()
  assert.deepEqual([shown(second), await staged()], ['packing', 2])
  await after(limits.retryBackoffMsMax)
  assert.deepEqual([shown(second), await staged()], ['sending', 1])
})

test('staging whose removal fails while a sweep leaves it to its snapshot counts until it is removed', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 4 })
  const { host, take, drop, quiet, after, shown, staged } = stage
  take(NO_URLS)
  take(NO_URLS, second)
  await quiet()
  const removed = host.staging.holdNext('remove')
  drop()
  await quiet()
  const swept = await sweepSlowly(stage)
  host.staging.setInSight(false)
  removed()
  await quiet()
  host.staging.setInSight(true)
  host.staging.failNext('remove', fault())
  swept()
  await quiet()
  assert.deepEqual([shown(second), await staged()], ['packing', 2])
  await after(limits.retryBackoffMsMax)
  assert.deepEqual([shown(second), await staged()], ['sending', 1])
})

test('a clone that could not be removed goes with the next sweep, and the parts stay', async (t) => {
  const stage = await snapshotStage(t)
  const { host, id, upload, take, handOver, quiet, shown, after, keeps } = stage
  host.staging.failNext('removeClone', fault())
  take(NO_URLS)
  await quiet()
  assert.equal(shown(), 'sending', 'it is not the trouble of the snapshot')
  handOver(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'completed')
  const cloneBytes = async (): Promise<number | undefined> => (await host.staging.list())[0]?.cloneBytes
  assert.ok(((await cloneBytes()) ?? 0) > 0)
  await after(limits.stagingSweepMs)
  assert.deepEqual([await cloneBytes(), await keeps(id)], [0, 'all'])
})

test('space of parts that were to be freed is freed by the next daemon, if the first died before that', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 4, uploadsMax: 1 })
  const { host, id, upload, take, quiet, restart, snap, drop } = stage
  const { parts } = urlsOf(upload)
  take({ firstPart: 1, parts: parts.slice(0, 2) })
  await quiet()
  host.staging.failNext('discardPart', fault())
  take(NO_URLS, second)
  await quiet()
  drop(second)
  await quiet()
  const packed = async (): Promise<number | undefined> => (await host.staging.list())[0]?.packedBytes
  assert.ok(((await packed()) ?? 0) > 2 * MIB)
  assert.ok(snap(id).staged.bytes < MIB)
  await restart()
  assert.equal(await packed(), snap(id).staged.bytes)
})

test('staging that is given up for another snapshot is logged with its own ids', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 4 })
  const { host, id, vmId, take, quiet, snap, lines, log } = stage
  const remove = host.staging.remove.bind(host.staging)
  mock.method(host.staging, 'remove', (...args: Parameters<typeof remove>) => {
    log.debug({}, 'a driver removes staging')
    return remove(...args)
  })
  await complete(stage, id)
  take(NO_URLS, second)
  await quiet()
  const about = /^(sent parts removed from staging|removing unused staging|a driver removes staging)/
  const found = lines.filter(({ message }) => about.test(message))
  assert.equal(found.length, 3)
  const ids = { snapshot_id: id, vm_id: vmId, operation_id: snap(id).operationId }
  for (const line of found) assert.deepEqual({ ...line, ...ids }, line)
})

test('staging of a snapshot that failed for good goes at once', async (t) => {
  const { host, upload, take, quiet, shown, snap, staged } = await snapshotStage(t, { uploadsMax: 1 })
  const { complete: _none, ...parts } = urlsOf(upload)
  const release = host.objectStore.holdNext('putPart')
  take(parts)
  await quiet()
  release()
  host.objectStore.answerNext('putPart', { kind: 'gone', because: 'it answered 404 (NoSuchUpload)' })
  await quiet()
  assert.deepEqual([shown(), snap().staged.bytes, await staged()], ['failed upload_gone', 0, 0])
})
