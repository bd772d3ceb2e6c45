import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { bigDisk, imageIn, imageOf, MIB, noise, snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { abortable } from '../../lib/abortable.ts'
import type { SnapshotId } from '../../core/snapshots/record.ts'
import type { FakeObjectStore } from '../../../test/fakes/fake-object-store.ts'

type Stage = Awaited<ReturnType<typeof snapshotStage>>

const busy = { kind: 'busy', because: 'it answered 503 (SlowDown)' } as const
const PARTS = 3

/**
 * Returns whether the object is the disk at its capture, staging has what it should, and no stored part was sent again.
 */
async function isComplete({ host, store, id, shown, keeps }: Stage, kept = 'all'): Promise<void> {
  const key = 'image-1'
  assert.equal(shown(), 'completed')
  const object = host.objectStore.objects.get(key)
  assert.ok(object !== undefined, 'there is no object')
  assert.deepEqual(imageIn(object), imageOf(bigDisk('the disk')))
  assert.equal(await keeps(), kept)
  const { parts, complete, head } = store.snapshots.urlsAtHand(id)
  assert.deepEqual([parts.size, complete, head], [0, false, false], 'URLs are left')
  assert.deepEqual(sentTwice(host.objectStore, key), [])
}

function sentTwice({ requests }: FakeObjectStore, key: string): number[] {
  const stored = requests.filter((request) => request.key === key && request.outcome === 'stored')
  const numbers = stored.map(({ number = 0 }) => number)
  return numbers.filter((number, index) => numbers.indexOf(number) !== index)
}

test('parts are sent while others are still packed', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, shown, store, id } = stage
  const packed = host.staging.holdNext('removeClone')
  const sent = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'sending')
  assert.equal(store.snapshots.parts(id).filter(({ etag }) => etag !== undefined).length, PARTS - 1)
  sent()
  packed()
  await quiet()
  await isComplete(stage)
})

test('a snapshot without URLs is packed, and sent as they come', async (t) => {
  const stage = await snapshotStage(t)
  const { upload, take, handOver, quiet, shown, store, id } = stage
  const { parts, complete, head } = urlsOf(upload)
  take({ firstPart: 1, parts: [] })
  await quiet()
  assert.equal(shown(), 'sending')
  handOver({ firstPart: 2, parts: parts.slice(1) })
  await quiet()
  const etags = store.snapshots.parts(id).map(({ etag }) => etag !== undefined)
  assert.deepEqual(etags, [false, true, true])
  handOver({ firstPart: 1, parts: parts.slice(0, 1) })
  await quiet()
  assert.equal(shown(), 'sending')
  handOver({ firstPart: 1, parts: [], ...(complete && { complete }), ...(head && { head }) })
  await quiet()
  await isComplete(stage)
})

test('expired URLs show, and fresh ones let it go on without sending again what was sent', async (t) => {
  const stage = await snapshotStage(t, { uploadsMax: 1 })
  const { host, upload, take, handOver, quiet, shown, snap, store, id } = stage
  const release = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  release()
  const second = host.objectStore.holdNext('putPart')
  await quiet()
  upload.expireUrls()
  second()
  await quiet()
  assert.equal(shown(), 'sending upload_urls_expired')
  assert.equal(snap().trouble?.nextAttemptAtMs, undefined)
  assert.equal(store.snapshots.urlsAtHand(id).parts.size, 0)
  handOver(urlsOf(upload))
  await quiet()
  await isComplete(stage)
})

test('fresh URLs that come while an expired one is under way are not taken for expired', async (t) => {
  const stage = await snapshotStage(t, { uploadsMax: 1 })
  const { host, upload, take, handOver, quiet } = stage
  const release = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  upload.expireUrls()
  handOver(urlsOf(upload))
  await quiet()
  release()
  await quiet()
  await isComplete(stage)
})

test('a busy store is asked again after a while, and not before it wants to be', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, shown, snap, after, clock } = stage
  host.objectStore.answerNext('putPart', { ...busy, retryAfterMs: 20_000 })
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'sending upload_busy')
  assert.equal(snap().trouble?.nextAttemptAtMs, clock.now() + 20_000)
  await after(19_999)
  assert.equal(shown(), 'sending upload_busy')
  await after(1)
  await isComplete(stage)
})

test('a busy store is not tried with more parts meanwhile', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 64 })
  const { host, vmId, upload, take, quiet, shown, after } = stage
  const parts = limits.partsUnderWayMax * 3
  host.diskContents.set(vmId, { content: noise('many parts', parts * MIB), sizeBytes: parts * MIB })
  for (let part = 0; part < parts; part += 1)
    host.objectStore.answerNext('putPart', { ...busy, retryAfterMs: 20_000 })
  take(urlsOf(upload, parts + 1))
  await quiet()
  await after(19_999)
  assert.equal(host.objectStore.requests.length, limits.partsUnderWayMax)
  await after(parts * 20_000)
  assert.equal(shown(), 'completed')
})

test('a part whose answer was lost is sent again, and the object is right', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, after } = stage
  host.objectStore.answerNext('putPart', { kind: 'busy', because: 'the connection broke off' }, 'after')
  take(urlsOf(upload))
  await quiet()
  await after(limits.retryBackoffMsMin)
  await isComplete(stage)
})

test('a store that stays busy fails the snapshot after a bounded number of tries, and fresh URLs let it go on', async (t) => {
  const { host, vmId, upload, take, handOver, quiet, shown, snap, after, staged } = await snapshotStage(t)
  host.diskContents.set(vmId, { content: Buffer.from('of one part'), sizeBytes: 4096 })
  for (let attempt = 0; attempt < limits.sendAttemptsMax; attempt += 1)
    host.objectStore.answerNext('putPart', busy)
  take(urlsOf(upload))
  await after(limits.sendAttemptsMax * limits.retryBackoffMsMax)
  assert.equal(shown(), 'failed upload_busy')
  assert.match(snap().trouble?.message ?? '', /SlowDown/)
  assert.deepEqual([snap().resumable, await staged()], [true, 1])
  assert.equal(host.objectStore.requests.length, limits.sendAttemptsMax)
  handOver(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'completed')
})

for (const [answer, code, resumable] of [
  [{ kind: 'gone', because: 'it answered 404 (NoSuchUpload)' }, 'upload_gone', false],
  [{ kind: 'refused', because: 'it answered 400 (InvalidArgument)' }, 'upload_refused', false],
  [{ kind: 'not_allowed', because: 'its URL names a loopback address' }, 'upload_url_not_allowed', true],
] as const) {
  for (const method of ['putPart', 'complete'] as const) {
    const fate = resumable ? 'until fresh URLs come' : 'for good'
    test(`a ${method} that is answered ${answer.kind} fails the snapshot ${fate}`, async (t) => {
      const stage = await snapshotStage(t)
      const { host, store, id, upload, take, handOver, quiet, shown, snap, staged } = stage
      host.objectStore.answerNext(method, answer)
      take(urlsOf(upload))
      await quiet()
      assert.equal(shown(), `failed ${code}`)
      assert.match(snap().trouble?.message ?? '', new RegExp(answer.because.replace(/[()]/g, '.')))
      assert.equal(snap().resumable, resumable)
      if (!resumable) {
        assert.deepEqual([await staged(), store.snapshots.urlsAtHand(id).parts.size], [0, 0])
        assert.ok(host.objectStore.requests.every((request) => request.method !== 'head'))
        return
      }
      upload.expireUrls()
      handOver(urlsOf(upload))
      await quiet()
      await isComplete(stage)
    })
  }
}

test('a bounded number of parts is under way over all snapshots, and each gets its share', async (t) => {
  const stage = await snapshotStage(t, { uploadsMax: 2 })
  const { host, upload, take, quiet, shown, id } = stage
  const other = 'snap-2' as SnapshotId
  const store = host.objectStore
  const holds = [store.holdNext('putPart'), store.holdNext('putPart')]
  take(urlsOf(upload))
  take(urlsOf(store.openUpload('image-2')), other)
  await quiet()
  assert.deepEqual([shown(id), shown(other)], ['sending', 'sending'])
  assert.equal(store.requests.length, 0, 'a third was sent')
  for (const release of holds) release()
  await quiet()
  assert.deepEqual([shown(id), shown(other)], ['completed', 'completed'])
  const order = store.requests.filter(({ method }) => method === 'putPart').map(({ key }) => key)
  assert.equal(new Set(order.slice(0, 4)).size, 2, order.join())
})

test('packing waits while what is packed and not sent fills the quota', async (t) => {
  const stage = await snapshotStage(t, { stagingQuotaMib: 2 })
  const { upload, take, handOver, quiet, shown, store, host, id } = stage
  take({ firstPart: 1, parts: [] })
  await quiet()
  assert.equal(shown(), 'packing')
  assert.equal(store.snapshots.parts(id).length, 2)
  const [staged] = await host.staging.list()
  assert.ok(staged !== undefined && staged.packedBytes <= 3.5 * MIB)
  const other = 'snap-2' as SnapshotId
  take(urlsOf(host.objectStore.openUpload('image-2')), other)
  await quiet()
  assert.equal(shown(other), 'packing')
  assert.equal(store.snapshots.parts(other).length, 0)
  handOver(urlsOf(upload))
  await quiet()
  assert.equal(shown(other), 'completed')
  await isComplete(stage, 'none')
})

for (const code of ['storage_full', 'staging_lost'] as const) {
  test(`a pack that ends with ${code} fails the snapshot for good, and leaves nothing in staging`, async (t) => {
    const { host, upload, take, quiet, shown, snap, staged } = await snapshotStage(t)
    host.staging.failNext('pack', new HostFault(code, 'packing'))
    take(urlsOf(upload))
    await quiet()
    assert.deepEqual([shown(), snap().resumable, await staged()], [`failed ${code}`, false, 0])
  })
}

test('a pack that fails otherwise goes on from the part where it was', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, shown, after } = stage
  host.staging.failNext('pack', new HostFault('storage_failed', 'packing'), 'after')
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'packing storage_failed')
  await after(limits.retryBackoffMsMin)
  await isComplete(stage)
})

test('a part that cannot be read is tried again, and one that is lost fails the snapshot', async (t) => {
  const { host, upload, take, quiet, shown, after } = await snapshotStage(t)
  host.staging.failNext('partBody', new HostFault('storage_failed', 'reading'))
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'sending storage_failed')
  host.staging.failNext('partBody', new HostFault('staging_lost', 'reading'))
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'failed staging_lost')
})

test('a part under way is activity, noted now and then', async (t) => {
  const { host, clock, upload, take, quiet, snap } = await snapshotStage(t)
  const release = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  const { lastActivityAtMs, revision } = snap()
  clock.advance(limits.snapshotActivityMs)
  release()
  await quiet()
  assert.ok(snap().lastActivityAtMs > lastActivityAtMs && snap().revision > revision)
})

test('activity that cannot be recorded does not break a part under way', async (t) => {
  const stage = await snapshotStage(t)
  const { host, store, clock, upload, take, quiet } = stage
  const touch = mock.method(store.snapshots, 'touch', () => {
    throw new HostFault('state_unwritable', 'on purpose')
  })
  const release = host.objectStore.holdNext('putPart')
  take(urlsOf(upload))
  await quiet()
  clock.advance(limits.snapshotActivityMs)
  release()
  await quiet()
  assert.ok(touch.mock.callCount() > 0)
  await isComplete(stage)
})

test('a snapshot that sends slowly leaves a place for another one', async (t) => {
  const stage = await snapshotStage(t, { uploadsMax: 2 })
  const { host, upload, take, quiet, shown, id } = stage
  const other = 'snap-2' as SnapshotId
  const slow = urlsOf(upload)
  const released = Promise.withResolvers<void>()
  const putPart = host.objectStore.putPart.bind(host.objectStore)
  mock.method(host.objectStore, 'putPart', async (...args: Parameters<typeof putPart>) => {
    if (slow.parts.some((url) => url.equals(args[0].url))) await abortable(released.promise, args[1])
    return putPart(...args)
  })
  take(slow)
  await quiet()
  take(urlsOf(host.objectStore.openUpload('image-2')), other)
  await quiet()
  assert.deepEqual([shown(id), shown(other)], ['sending', 'completed'])
  released.resolve()
  await quiet()
  await isComplete(stage)
})

test('fresh URLs for a snapshot that has just failed let it continue with its staged parts', async (t) => {
  const stage = await snapshotStage(t, { uploadsMax: 1 })
  const { host, upload, take, handOver, quiet, shown, snap } = stage
  // All is packed, and the clone is being removed while the snapshot fails.
  const sent = host.objectStore.holdNext('putPart')
  const removed = host.staging.holdNext('removeClone')
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'sending')
  sent()
  host.objectStore.answerNext('putPart', { kind: 'not_allowed', because: 'its URL names a loopback address' })
  await quiet()
  assert.deepEqual([shown(), snap().resumable], ['failed upload_url_not_allowed', true])
  handOver(urlsOf(upload))
  await quiet()
  removed()
  await quiet()
  await isComplete(stage)
})

test('newer URLs stay when an older one is refused', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, handOver, quiet, shown, store, id } = stage
  const release = host.objectStore.holdNext('putPart')
  take({ firstPart: 1, parts: urlsOf(upload).parts.slice(0, 1) })
  await quiet()
  upload.expireUrls()
  const { complete, head, parts } = urlsOf(upload)
  handOver({ firstPart: 2, parts: parts.slice(1), ...(complete && { complete }), ...(head && { head }) })
  release()
  await quiet()
  assert.equal(shown(), 'sending upload_urls_expired')
  assert.equal(store.snapshots.urlsAtHand(id).complete, true)
  handOver({ firstPart: 1, parts: parts.slice(0, 1) })
  await quiet()
  await isComplete(stage)
})

test('lacking URLs are shown before a store that is busy with other parts', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, handOver, quiet, shown, after } = stage
  const release = host.objectStore.holdNext('putPart')
  take({ firstPart: 1, parts: urlsOf(upload).parts.slice(0, 1) })
  await quiet()
  upload.expireUrls()
  const late = host.objectStore.holdNext('putPart')
  const { parts, complete, head } = urlsOf(upload)
  handOver({ firstPart: 2, parts: parts.slice(1), ...(complete && { complete }), ...(head && { head }) })
  await quiet()
  release()
  await quiet()
  assert.equal(shown(), 'sending upload_urls_expired')
  host.objectStore.answerNext('putPart', busy)
  late()
  await quiet()
  assert.equal(shown(), 'sending upload_urls_expired')
  handOver({ firstPart: 1, parts: parts.slice(0, 1) })
  await after(limits.retryBackoffMsMin)
  await isComplete(stage)
})

test('the clone is removed once the disk says that nothing more is packed from it', async (t) => {
  const stage = await snapshotStage(t)
  const { host, store, upload, take, quiet, find } = stage
  let [flushed, packed] = [0, Number.POSITIVE_INFINITY]
  store.onSnapshotChange(() => {
    const record = find()
    if (record?.sha256 !== undefined) packed = Math.min(packed, record.revision)
  })
  const flush = store.flushed.bind(store)
  mock.method(store, 'flushed', async () => {
    const revision = find()?.revision ?? 0
    await flush()
    flushed = Math.max(flushed, revision)
  })
  const removeClone = host.staging.removeClone.bind(host.staging)
  const seen: boolean[] = []
  mock.method(host.staging, 'removeClone', (...args: Parameters<typeof removeClone>) => {
    seen.push(flushed >= packed)
    return removeClone(...args)
  })
  take(urlsOf(upload))
  await quiet()
  assert.deepEqual(seen, [true])
  await isComplete(stage)
})
