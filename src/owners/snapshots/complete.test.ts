import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { bigDisk, imageIn, imageOf, snapshotStage, urlsOf } from '../../../test/snapshot-stage.ts'
import { limits } from '../../config/limits.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'

const never = new AbortController().signal
const busy = { kind: 'busy', because: 'it answered 503 (SlowDown)' } as const

/** Returns whether the object in the store is the disk at its capture. */
function isComplete({ host, shown, upload }: Awaited<ReturnType<typeof snapshotStage>>): void {
  assert.equal(shown(), 'completed')
  const object = host.objectStore.objects.get(upload.key)
  assert.ok(object !== undefined, 'there is no object')
  assert.deepEqual(imageIn(object), imageOf(bigDisk('the disk')))
}

test('a completion whose answer was lost is asked for again', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, shown, after } = stage
  host.objectStore.answerNext('complete', busy, 'after')
  take(urlsOf(upload))
  await quiet()
  assert.equal(shown(), 'completing upload_busy')
  await after(limits.retryBackoffMsMin)
  isComplete(stage)
})

const GONE = { kind: 'gone', because: 'it answered 404 (NoSuchUpload)' } as const

test('if the store has forgotten the upload since, the object itself shows that it was completed', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, after } = stage
  host.objectStore.answerNext('complete', busy, 'after')
  host.objectStore.answerNext('complete', GONE)
  host.objectStore.answerNext('head', busy)
  host.objectStore.answerNext('complete', GONE)
  take(urlsOf(upload))
  await quiet()
  await after(4 * limits.retryBackoffMsMin)
  isComplete(stage)
  assert.equal(host.objectStore.requests.filter(({ method }) => method === 'head').length, 2)
})

test('an upload that is gone, and no object in its place, fails the snapshot', async (t) => {
  const { host, upload, take, quiet, shown, snap, after } = await snapshotStage(t)
  host.objectStore.answerNext('complete', busy)
  take(urlsOf(upload))
  await quiet()
  upload.abort()
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'failed upload_gone')
  assert.match(snap().trouble?.message ?? '', /no object/)
})

test('an object of another size is not this snapshot', async (t) => {
  const { host, upload, take, quiet, shown, snap, after } = await snapshotStage(t)
  host.objectStore.answerNext('complete', busy)
  take(urlsOf(upload))
  await quiet()
  upload.abort()
  host.objectStore.objects.set('image-1', Buffer.from('something else'))
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'failed upload_gone')
  assert.match(snap().trouble?.message ?? '', /14 bytes/)
})

test('without a head URL the result of a lost completion is unknown, until a head URL is handed over', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, handOver, quiet, shown, snap, after } = stage
  host.objectStore.answerNext('complete', busy, 'after')
  host.objectStore.answerNext('complete', GONE)
  const { head, ...rest } = urlsOf(upload)
  take(rest)
  await quiet()
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'failed upload_gone')
  assert.match(snap().trouble?.message ?? '', /only a head_url can show/)
  host.objectStore.answerNext('complete', GONE)
  handOver({ firstPart: 1, parts: [], ...(head && { head }) })
  await quiet()
  isComplete(stage)
})

test('a head URL that shows nothing does not end the snapshot for good', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, handOver, quiet, shown, snap, after } = stage
  host.objectStore.answerNext('complete', busy, 'after')
  host.objectStore.answerNext('complete', GONE)
  host.objectStore.answerNext('head', { kind: 'refused', because: 'it answered 400' })
  take(urlsOf(upload))
  await quiet()
  await after(limits.retryBackoffMsMin)
  assert.deepEqual([shown(), snap().resumable], ['failed upload_gone', true])
  assert.match(snap().trouble?.message ?? '', /head_url shows no object: it answered 400/)
  host.objectStore.answerNext('complete', GONE)
  const { head } = urlsOf(upload)
  handOver({ firstPart: 1, parts: [], ...(head && { head }) })
  await quiet()
  isComplete(stage)
})

const FORBIDDEN = { kind: 'expired', because: 'it answered 403' } as const

test('fresh URLs are wanted for one head URL that the store forbids, and not for the next', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, handOver, quiet, shown, snap, after } = stage
  host.objectStore.answerNext('complete', busy, 'after')
  for (let time = 0; time < 3; time += 1) host.objectStore.answerNext('complete', GONE)
  for (let time = 0; time < 2; time += 1) host.objectStore.answerNext('head', FORBIDDEN)
  take(urlsOf(upload))
  await quiet()
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'completing upload_urls_expired')
  handOver(urlsOf(upload))
  await quiet()
  assert.deepEqual([shown(), snap().resumable], ['failed upload_gone', true])
  assert.match(snap().trouble?.message ?? '', /head_url shows no object: it answered 403/)
  handOver(urlsOf(upload))
  await quiet()
  isComplete(stage)
})

test('a fresh head URL after one that the store forbade shows that the upload was completed', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, handOver, quiet, shown, after } = stage
  host.objectStore.answerNext('complete', busy, 'after')
  for (let time = 0; time < 2; time += 1) host.objectStore.answerNext('complete', GONE)
  host.objectStore.answerNext('head', FORBIDDEN)
  take(urlsOf(upload))
  await quiet()
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'completing upload_urls_expired')
  handOver(urlsOf(upload))
  await quiet()
  isComplete(stage)
})

const REFUSED = { kind: 'refused', because: 'it answered 404 (NoSuchKey)' } as const

test('if the store refuses a completion after one whose answer was lost, the object shows that it was completed', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, quiet, after } = stage
  host.objectStore.answerNext('complete', busy, 'after')
  host.objectStore.answerNext('complete', REFUSED)
  take(urlsOf(upload))
  await quiet()
  await after(limits.retryBackoffMsMin)
  isComplete(stage)
})

test('a refused completion after one whose answer was lost does not end the snapshot for good without an object', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, handOver, quiet, shown, snap, after, keeps } = stage
  host.objectStore.answerNext('complete', busy)
  host.objectStore.answerNext('complete', REFUSED)
  take(urlsOf(upload))
  await quiet()
  await after(limits.retryBackoffMsMin)
  assert.deepEqual([shown(), snap().resumable, await keeps()], ['failed upload_refused', true, 'all'])
  assert.match(snap().trouble?.message ?? '', /NoSuchKey.*no object came of it/)
  handOver(urlsOf(upload))
  await quiet()
  isComplete(stage)
})

test('a refused completion after one whose answer was lost waits for a head URL', async (t) => {
  const stage = await snapshotStage(t)
  const { host, upload, take, handOver, quiet, shown, snap, after } = stage
  host.objectStore.answerNext('complete', busy, 'after')
  host.objectStore.answerNext('complete', REFUSED)
  const { head, ...rest } = urlsOf(upload)
  take(rest)
  await quiet()
  await after(limits.retryBackoffMsMin)
  assert.deepEqual([shown(), snap().resumable], ['failed upload_refused', true])
  assert.match(snap().trouble?.message ?? '', /only a head_url can show/)
  host.objectStore.answerNext('complete', REFUSED)
  handOver({ firstPart: 1, parts: [], ...(head && { head }) })
  await quiet()
  isComplete(stage)
})

test('an object of the same size and of other parts is not this snapshot', async (t) => {
  const { host, upload, take, quiet, shown, snap, after, store, id } = await snapshotStage(t)
  host.objectStore.answerNext('complete', busy)
  take(urlsOf(upload))
  await quiet()
  const other = host.objectStore.openUpload(upload.key)
  const parts = store.snapshots.parts(id).map(({ number, bytes }) => {
    const body = Buffer.alloc(bytes, 'other')
    const etag = createHash('md5').update(body).digest('hex')
    other.put(number, body, etag)
    return { number, etag }
  })
  await host.objectStore.complete(new SignedUrl(other.completeUrl), parts, never)
  upload.abort()
  await after(limits.retryBackoffMsMin)
  assert.equal(shown(), 'failed upload_gone')
  assert.match(snap().trouble?.message ?? '', /an object of other parts/)
})

for (const [what, ofPart, ofObject] of [
  ['that are no MD5s', (md5: string) => md5.replaceAll(/[0-9]/g, 'f'), () => `${'0'.repeat(32)}-3`],
  ['in capital letters', (md5: string) => md5.toUpperCase(), (etag = '') => etag.toUpperCase()],
  ['of another form for objects', (md5: string) => md5, () => 'opaque'],
] as const)
  test(`an object of a store with ETags ${what} is this snapshot`, async (t) => {
    const stage = await snapshotStage(t)
    const { upload, take, quiet, after } = stage
    const { objectStore } = stage.host
    const putPart = objectStore.putPart.bind(objectStore)
    const complete = objectStore.complete.bind(objectStore)
    const head = objectStore.head.bind(objectStore)
    const md5s = new Map<string, string>()
    t.mock.method(objectStore, 'putPart', async (...args: Parameters<typeof putPart>) => {
      const outcome = await putPart(...args)
      if (outcome.kind !== 'stored') return outcome
      const etag = ofPart(outcome.etag)
      md5s.set(etag, outcome.etag)
      return { ...outcome, etag }
    })
    t.mock.method(objectStore, 'complete', async (...[url, parts, signal]: Parameters<typeof complete>) => {
      const own = parts.map(({ number, etag }) => ({ number, etag: md5s.get(etag) ?? etag }))
      return complete(url, own, signal)
    })
    t.mock.method(objectStore, 'head', async (...args: Parameters<typeof head>) => {
      const outcome = await head(...args)
      return outcome.kind === 'present' ? { ...outcome, etag: ofObject(outcome.etag) } : outcome
    })
    objectStore.answerNext('complete', busy, 'after')
    objectStore.answerNext('complete', GONE)
    take(urlsOf(upload))
    await quiet()
    await after(limits.retryBackoffMsMin)
    isComplete(stage)
  })
