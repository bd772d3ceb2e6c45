import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import {
  completeSnapshot,
  deleteSnapshot,
  handOverUrls,
  startSnapshot,
} from '../../commands/snapshots/snapshots.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { DAY_MS, HOUR_MS } from '../../lib/time-units.ts'
import type { SnapshotId, StagingId } from '../../core/snapshots/record.ts'

const NO_URLS = { firstPart: 1, parts: [] }
/** Parts of the disk of the stage. */
const PARTS = 3
const other = 'snap-2' as SnapshotId

test('a snapshot that is deleted ends where it is, and its staging goes', async (t) => {
  const { host, upload, take, drop, quiet, find, staged } = await snapshotStage(t)
  host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  drop()
  await quiet()
  assert.deepEqual([find(), await staged()], [undefined, 0])
  drop()
})

test('a failed snapshot that may go on keeps its staging, until it is deleted', async (t) => {
  const { host, upload, take, drop, quiet, shown, staged } = await snapshotStage(t)
  host.objectStore.answerNext('putPart', { kind: 'not_allowed', because: 'its URL names a loopback address' })
  take(urlsOf(upload))
  await quiet()
  assert.deepEqual([shown(), await staged()], ['failed upload_url_not_allowed', 1])
  drop()
  await quiet()
  assert.equal(await staged(), 0)
})

test('a snapshot with the same id is another one, whatever the first one was doing', async (t) => {
  const { host, upload, take, drop, quiet, shown, snap, staged, keeps } = await snapshotStage(t)
  const sent = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  const { stagingId } = snap()
  drop()
  take(urlsOf(host.objectStore.openUpload('image-2')))
  sent()
  await quiet()
  assert.notEqual(snap().stagingId, stagingId)
  assert.deepEqual([shown(), await keeps(), await staged()], ['completed', 'all', 1])
  assert.ok(host.objectStore.objects.has('image-2') && !host.objectStore.objects.has('image-1'))
})

test('staging without activity is given up once it is too old, and nothing else is', async (t) => {
  const { host, upload, take, quiet, shown, snap, after, clock, staged, store, id } = await snapshotStage(t)
  take(NO_URLS)
  host.staging.setReflink(false)
  await quiet()
  host.staging.setReflink(true)
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'sending')
  host.staging.setReflink(false)
  take(urlsOf(upload), other)
  await quiet()
  clock.advance(DAY_MS - limits.stagingSweepMs)
  await quiet()
  assert.equal(shown(), 'sending')
  clock.advance(2 * limits.stagingSweepMs)
  await quiet()
  assert.deepEqual([shown(), snap().resumable, await staged()], ['failed staging_stale', false, 0])
  assert.equal(store.snapshots.urlsAtHand(id).complete, false)
  assert.equal(
    shown(other),
    'capturing snapshot_unsupported',
    'it waits for its capture, and has nothing staged',
  )
})

test('a failed snapshot that may go on is given up as well', async (t) => {
  const { host, upload, take, quiet, shown, clock, staged } = await snapshotStage(t)
  host.objectStore.answerNext('putPart', { kind: 'not_allowed', because: 'its URL names a loopback address' })
  take(urlsOf(upload))
  await quiet()
  clock.advance(DAY_MS)
  await quiet()
  clock.advance(limits.stagingSweepMs)
  await quiet()
  assert.deepEqual([shown(), await staged()], ['failed staging_stale', 0])
})

test('a snapshot whose parts could not be sent for long is given up as well', async (t) => {
  const { host, upload, take, quiet, shown, clock, staged } = await snapshotStage(t)
  const tries = 3 * PARTS
  for (let count = 0; count < tries; count += 1)
    host.objectStore.failNext('putPart', new HostFault('storage_failed', 'on purpose'))
  take(urlsOf(upload))
  await quiet()
  assert.deepEqual([shown(), await staged()], ['sending storage_failed', 1])
  clock.advance(DAY_MS)
  await quiet()
  clock.advance(limits.stagingSweepMs)
  await quiet()
  assert.deepEqual([shown(), await staged()], ['failed staging_stale', 0])
})

test('a snapshot without activity becomes stale, however often the daemon restarts', async (t) => {
  const { clock, take, quiet, shown, restart, after } = await snapshotStage(t)
  take(NO_URLS)
  await quiet()
  const hours = Array.from({ length: 4 }, (_, at) => (at + 1) * 7)
  for (const hour of hours) {
    clock.set(hour * HOUR_MS)
    await restart()
    assert.equal(shown(), 'sending', `${hour} h`)
  }
  await after(limits.stagingGraceMs + limits.stagingSweepMs)
  assert.equal(shown(), 'failed staging_stale')
})

test('a snapshot that looks stale when the daemon comes back has some time to move', async (t) => {
  const { host, clock, upload, take, handOver, quiet, shown, restart, after } = await snapshotStage(t)
  take(NO_URLS)
  await quiet()
  clock.set(2 * DAY_MS)
  await restart()
  assert.equal(shown(), 'sending')
  host.objectStore.holdNext('putPart')
  handOver(urlsOf(upload))
  await quiet()
  await after(limits.stagingSweepMs)
  assert.equal(shown(), 'sending')
})

test('a clock that is set ahead gives up nothing before the controller could move it', async (t) => {
  const { clock, take, quiet, shown, after } = await snapshotStage(t)
  take(NO_URLS)
  await quiet()
  await after(limits.stagingSweepMs)
  clock.set(2 * DAY_MS)
  await after(limits.stagingSweepMs)
  assert.equal(shown(), 'sending')
})

test('a snapshot whose last activity was under a clock that was ahead is given up all the same', async (t) => {
  const { clock, take, quiet, shown, after } = await snapshotStage(t)
  clock.set(10 * DAY_MS)
  take(NO_URLS)
  await quiet()
  clock.set(-10 * DAY_MS)
  await after(DAY_MS - limits.stagingSweepMs)
  assert.equal(shown(), 'sending')
  await after(3 * limits.stagingSweepMs)
  assert.equal(shown(), 'failed staging_stale')
})

test('a deletion after a long downtime gives up nothing that the controller could not move meanwhile', async (t) => {
  const { upload, clock, take, drop, handOver, quiet, shown, restart } = await snapshotStage(t)
  take(NO_URLS)
  take(NO_URLS, other)
  await quiet()
  clock.set(3 * DAY_MS)
  await restart()
  drop(other)
  await quiet()
  assert.equal(shown(), 'sending')
  handOver(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'completed')
})

test('staging that belongs to no snapshot is removed, at the start and later; but not while the pool is out of sight', async (t) => {
  const { host, vmId, quiet, restart, after, staged } = await snapshotStage(t)
  await host.staging.clone('stray.op-1' as StagingId, vmId)
  await host.staging.keep('stray.op-1' as StagingId)
  host.storage.setInSight(false)
  await restart()
  host.storage.setInSight(true)
  assert.equal(await staged(), 1)
  await after(limits.stagingSweepMs)
  assert.equal(await staged(), 0)
  await host.staging.clone('stray.op-2' as StagingId, vmId)
  await host.staging.keep('stray.op-2' as StagingId)
  await restart()
  await quiet()
  assert.equal(await staged(), 0)
})

test('staging that cannot be removed does not keep other staging', async (t) => {
  const { host, vmId, quiet, restart, staged } = await snapshotStage(t)
  for (const stagingId of ['stray.op-1', 'stray.op-2'] as StagingId[]) {
    await host.staging.clone(stagingId, vmId)
    await host.staging.keep(stagingId)
  }
  host.staging.failNext('remove', new HostFault('storage_failed', 'on purpose'))
  await restart()
  await quiet()
  assert.equal(await staged(), 1)
})

test('staging that could not be removed with its snapshot is removed by a sweep at once, and by later ones', async (t) => {
  const { host, upload, take, drop, quiet, after, staged } = await snapshotStage(t)
  const failNext = (): void => host.staging.failNext('remove', new HostFault('storage_failed', 'on purpose'))
  const { complete: _later, ...parts } = urlsOf(upload)
  for (const id of ['snap-1', 'snap-2'] as SnapshotId[]) {
    take(parts, id)
    await quiet()
  }
  failNext()
  drop()
  await quiet()
  assert.equal(await staged(), 1)
  failNext()
  failNext()
  drop(other)
  await quiet()
  assert.equal(await staged(), 1)
  await after(limits.stagingSweepMs)
  assert.equal(await staged(), 0)
})

test('each request that changes a snapshot has its id in the lines that follow from it', async (t) => {
  const { context, upload, vmId, id, quiet, shown, lines, snap } = await snapshotStage(t)
  const { complete, ...parts } = urlsOf(upload)
  const idsSince = (count: number): unknown[] => lines.slice(count).map(({ operation_id }) => operation_id)
  const started = startSnapshot(context, id, { vmId, partMib: 1, urls: NO_URLS })
  await quiet()
  assert.ok(started.ok && complete !== undefined)
  assert.deepEqual(new Set(idsSince(0)), new Set([started.value.operationId]))
  const before = lines.length
  const handed = handOverUrls(context, id, parts)
  await quiet()
  assert.ok(handed.ok)
  assert.equal(snap().operationId, handed.value.operationId)
  assert.deepEqual(new Set(idsSince(before)), new Set([handed.value.operationId]))
  assert.ok(lines.slice(before).some(({ message }) => message === 'snapshot sent'))
  const sent = lines.length
  const completed = completeSnapshot(context, id, { complete })
  await quiet()
  assert.ok(completed.ok)
  assert.equal(shown(), 'completed')
  assert.deepEqual(new Set(idsSince(sent)), new Set([completed.value.operationId]))
  const ended = lines.length
  const deleted = deleteSnapshot(context, id)
  await quiet()
  assert.deepEqual(idsSince(ended), [deleted, deleted], 'the request, and the removal from staging')
  for (const line of lines) assert.deepEqual([line['vm_id'], line['snapshot_id']], [vmId, id])
})

test('what a driver logs for a snapshot has its ids, and those of the newest request', async (t) => {
  const { host, context, upload, vmId, id, quiet, lines, log } = await snapshotStage(t)
  const { objectStore } = host
  const putPart = objectStore.putPart.bind(objectStore)
  mock.method(objectStore, 'putPart', (...args: Parameters<typeof putPart>) => {
    log.debug({}, 'a part is sent')
    return putPart(...args)
  })
  const { complete: _, ...parts } = urlsOf(upload)
  startSnapshot(context, id, { vmId, partMib: 1, urls: NO_URLS })
  await quiet()
  const handed = handOverUrls(context, id, parts)
  await quiet()
  assert.ok(handed.ok)
  const line = lines.findLast(({ message }) => message === 'a part is sent')
  assert.deepEqual(
    [line?.['snapshot_id'], line?.['vm_id'], line?.['operation_id']],
    [id, vmId, handed.value.operationId],
  )
})

test('a snapshot whose deletion was missed writes nothing to another of its id', async (t) => {
  const stage = await snapshotStage(t)
  const { context, host, upload, vmId, id, take, quiet, shown, lines, staged, keeps } = stage
  const sent = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  // Simulates a deletion that is still on its way to the disk.
  const unheard = { ...context, pokeSnapshot: () => {} }
  deleteSnapshot(unheard, id)
  const urls = urlsOf(host.objectStore.openUpload('image-2'))
  assert.ok(startSnapshot(unheard, id, { vmId, partMib: 1, urls }).ok)
  sent()
  await quiet()
  assert.deepEqual([shown(), await keeps(), await staged()], ['completed', 'all', 1])
  assert.deepEqual([...host.objectStore.objects.keys()], ['image-2'])
  assert.deepEqual(
    lines.filter(({ level }) => level === 'error'),
    [],
  )
})

test('a sweep takes no staging of a deleted snapshot before all that works with it has ended', async (t) => {
  const { host, take, drop, quiet, after, staged } = await snapshotStage(t)
  const removed = host.staging.holdNext('removeClone')
  take(NO_URLS)
  await quiet()
  drop()
  await after(2 * limits.stagingSweepMs)
  assert.equal(await staged(), 1)
  removed()
  await quiet()
  assert.equal(await staged(), 0)
})

test('a sweep takes nothing that a snapshot is at work with', async (t) => {
  const { host, upload, take, quiet, shown, after } = await snapshotStage(t)
  const captured = host.staging.holdNext('removeClone')
  take(urlsOf(upload))
  await quiet()
  await after(2 * limits.stagingSweepMs)
  captured()
  await quiet()
  assert.equal(shown(), 'completed')
})

test('a bug in the course of one snapshot is shown, and stops neither that snapshot nor others', async (t) => {
  const { host, upload, take, quiet, shown, lines, after } = await snapshotStage(t)
  const flushDisk = mock.method(host.staging, 'flushDisk')
  flushDisk.mock.mockImplementationOnce(() => {
    throw new TypeError('on purpose')
  })
  take(urlsOf(upload))
  take(urlsOf(host.objectStore.openUpload('image-2')), other)
  await quiet()
  assert.deepEqual([shown(), shown(other)], ['waiting bug', 'completed'])
  assert.ok(lines.some(({ level, message }) => level === 'error' && message.includes('bug')))
  await after(limits.retryBackoffMsMax)
  assert.equal(shown(), 'completed')
})

test('a record that cannot be written for a while holds its snapshot up, and no longer', async (t) => {
  const { store, upload, take, quiet, shown, after } = await snapshotStage(t)
  const setEtag = mock.method(store.snapshots, 'setEtag')
  setEtag.mock.mockImplementationOnce(() => {
    const advance = mock.method(store.snapshots, 'advance')
    const fails = (): never => {
      throw new Error('disk I/O error')
    }
    advance.mock.mockImplementationOnce(fails)
    return fails()
  })
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'sending')
  await after(limits.retryBackoffMsMax)
  assert.equal(shown(), 'completed')
})

test('URLs that are gone although their removal seemed to fail are asked for, and not tried forever', async (t) => {
  const { host, store, upload, take, handOver, quiet, shown, id } = await snapshotStage(t)
  const drop = store.snapshots.dropUrls.bind(store.snapshots)
  const dropUrls = mock.method(store.snapshots, 'dropUrls')
  dropUrls.mock.mockImplementationOnce((...args: Parameters<typeof drop>): never => {
    drop(...args)
    throw new Error('disk I/O error')
  })
  const urls = urlsOf(upload)
  upload.expireUrls()
  take(urls)
  await quiet()
  assert.equal(store.snapshots.urlsAtHand(id).parts.size, 0)
  const asked = host.objectStore.requests.length
  await quiet()
  assert.equal(host.objectStore.requests.length, asked)
  handOver(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'completed')
})

test('a daemon that stops leaves nothing running, and the next goes on from there', async (t) => {
  const { host, upload, take, quiet, shown, restart } = await snapshotStage(t)
  host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  await restart()
  assert.equal(shown(), 'completed')
  const again = host.objectStore.requests.filter(({ outcome }) => outcome === 'stored')
  assert.equal(new Set(again.map(({ number }) => number)).size, again.length)
})

test('staging of a deleted snapshot stays until the deletion is on the disk', async (t) => {
  let flushing: Promise<void> = Promise.resolve()
  const { take, drop, quiet, staged, find } = await snapshotStage(t, { flush: () => flushing })
  take(NO_URLS)
  await quiet()
  assert.equal(await staged(), 1)
  const disk = Promise.withResolvers<void>()
  flushing = disk.promise
  drop()
  await quiet()
  assert.deepEqual([find(), await staged()], [undefined, 1])
  disk.resolve()
  await quiet()
  assert.equal(await staged(), 0)
})
