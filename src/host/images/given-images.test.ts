import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import type { TestContext } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { HostFault } from '../../core/errors.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { silentLog } from '../../log/log.ts'
import type { Sha256 } from '../../core/ids.ts'
import { poolPaths } from '../pool/pool-paths.ts'
import { imageThreadBesideThis } from './image-writer.ts'
import { Images } from './images.ts'

const MIB = 1024 * 1024
const content = randomBytes(3 * MIB)
const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
const never = new AbortController().signal

function stage(t: TestContext, reserveBytes = 0) {
  const directory = mkdtempSync(join(tmpdir(), 'images-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const paths = poolPaths(directory)
  for (const path of [paths.images, paths.tmp]) mkdirSync(path)
  const bounds = { bytesMax: 16 * MIB, stallMs: 60_000, totalMs: 60_000 }
  const own = { localDirectory: directory, thread: imageThreadBesideThis, log: silentLog }
  const terms = { ...bounds, reserveBytes, ...own }
  const images = new Images(paths, terms, 2)
  const has = (): boolean => readdirSync(paths.images).length === 1
  return { images, paths, has }
}

/** A body that waits after its first chunk until it is let go, and counts what was read of it. */
function heldBody() {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const seen = { chunks: 0, closed: false }
  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      seen.chunks += 1
      yield content.subarray(0, MIB)
      begun.resolve()
      await promise
      seen.chunks += 1
      yield content.subarray(MIB)
    } finally {
      seen.closed = true
    }
  }
  return { chunks: chunks(), seen, begun: begun.promise, letGo: resolve, cut: reject }
}

function fileWith(directory: string): SignedUrl {
  const path = join(directory, 'local.img')
  writeFileSync(path, content)
  return new SignedUrl(pathToFileURL(path).href)
}

test('a caller waits for an image that another one brings, and leaves its own source alone', async (t) => {
  const { images, paths, has } = stage(t)
  const [first, second] = [heldBody(), heldBody()]
  const taking = images.ensureFrom(sha256, first.chunks, never)
  await first.begun
  const waiting = images.ensureFrom(sha256, second.chunks, never)
  await new Promise(setImmediate)
  assert.ok(!has())
  first.letGo()
  await Promise.all([taking, waiting])
  assert.ok(readFileSync(paths.image(sha256)).equals(content))
  assert.deepEqual([first.seen.chunks, second.seen.chunks], [2, 0])
  assert.deepEqual(readdirSync(paths.tmp), [])
})

test('if a stream is cut, the caller that waited for it reads its own', async (t) => {
  const { images, paths } = stage(t)
  const [first, second] = [heldBody(), heldBody()]
  const taking = images.ensureFrom(sha256, first.chunks, never)
  await first.begun
  const waiting = images.ensureFrom(sha256, second.chunks, never)
  const fault = new HostFault('image_unavailable', 'the line was cut')
  first.cut(fault)
  await assert.rejects(taking, { code: 'image_unavailable' })
  second.letGo()
  await waiting
  assert.ok(readFileSync(paths.image(sha256)).equals(content))
})

test('an abort ends a silent stream, and leaves nothing', async (t) => {
  const { images, paths, has } = stage(t)
  const body = heldBody()
  const [controller, reason] = [new AbortController(), new Error('enough')]
  const taking = images.ensureFrom(sha256, body.chunks, controller.signal)
  await body.begun
  controller.abort(reason)
  await assert.rejects(taking, reason)
  assert.ok(!has())
  assert.deepEqual(readdirSync(paths.tmp), [])
  body.letGo()
  while (!body.seen.closed) await new Promise(setImmediate)
})

test('a stream that is too long says nothing about that of another host', async (t) => {
  const { images, has } = stage(t)
  const [honest, tooLong] = [heldBody(), heldBody()]
  const bound = { bytesMax: 3 * MIB, excess: 'image_too_large' } as const
  async function* longer(): AsyncGenerator<Uint8Array> {
    yield* tooLong.chunks
    yield content
  }
  tooLong.letGo()
  await assert.rejects(images.ensureFrom(sha256, longer(), never, bound), { code: 'image_too_large' })
  honest.letGo()
  await images.ensureFrom(sha256, honest.chunks, never, bound)
  assert.ok(has())
})

test('a stream ends before the pool loses its reserve', async (t) => {
  const { images, paths, has } = stage(t, Number.MAX_SAFE_INTEGER)
  // One chunk is more than the thread holds.
  let chunks = 0
  async function* body(): AsyncGenerator<Uint8Array> {
    while (true) {
      chunks += 1
      yield content
    }
  }
  await assert.rejects(images.ensureFrom(sha256, body(), never), { code: 'storage_full' })
  assert.ok(!has())
  assert.equal(chunks, 1)
  assert.deepEqual(readdirSync(paths.tmp), [])
})

test('an image is not removed while it is read', async (t) => {
  const { images, has } = stage(t)
  const body = heldBody()
  body.letGo()
  await images.ensureFrom(sha256, body.chunks, never)
  const reading = images.read(sha256, never)
  await reading.next()
  await images.remove(sha256, () => true)
  assert.ok(has())
  await reading.return(undefined)
  await images.remove(sha256, () => true)
  assert.ok(!has())
})

test('what comes is stored as it is, also if it is packed', async (t) => {
  const { images, paths } = stage(t)
  const packed = zstdCompressSync(content)
  const digest = createHash('sha256').update(packed).digest('hex') as Sha256
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield packed
  }
  await images.ensureFrom(digest, chunks(), never)
  assert.ok(readFileSync(paths.image(digest)).equals(packed))
})

test('slow images of one source do not keep an image of another source from being fetched', async (t) => {
  const { images, paths } = stage(t)
  const end = new AbortController()
  const slow = [heldBody(), heldBody()]
  const taking = slow.map(({ chunks }, index) =>
    assert.rejects(images.ensureFrom(`${index}f`.repeat(32) as Sha256, chunks, end.signal), /on purpose/),
  )
  // Either may be the first to have looked for the image.
  await Promise.race(slow.map(({ begun }) => begun))
  await images.ensure(sha256, { kind: 'url', url: fileWith(paths.tmp) }, never)
  assert.equal(slow.filter(({ seen }) => seen.chunks === 0).length, 1)
  end.abort(new Error('on purpose'))
  await Promise.all(taking)
})

test('an image that comes slowly is fetched from another source beside it, and then all callers have it', async (t) => {
  const { images, paths } = stage(t)
  const [slow, behind] = [heldBody(), heldBody()]
  const taking = images.ensureFrom(sha256, slow.chunks, never)
  await slow.begun
  const waiting = images.ensureFrom(sha256, behind.chunks, never)
  await images.ensure(sha256, { kind: 'url', url: fileWith(paths.tmp) }, never)
  assert.ok(readFileSync(paths.image(sha256)).equals(content))
  // Nothing more comes, and no caller waits for it.
  await Promise.all([taking, waiting])
  assert.deepEqual([slow.seen.chunks, behind.seen.chunks], [1, 0])
  assert.deepEqual(readdirSync(paths.tmp), ['local.img'])
  slow.letGo()
  while (!slow.seen.closed) await new Promise(setImmediate)
  await images.remove(sha256, () => true)
  assert.deepEqual(readdirSync(paths.images), [])
})

test('an image whose fetch waits for a place is fetched from another source at once', async (t) => {
  const { images, paths } = stage(t)
  const end = new AbortController()
  const others = [heldBody(), heldBody()]
  const taking = others.map(({ chunks }, index) =>
    assert.rejects(images.ensureFrom(`${index}f`.repeat(32) as Sha256, chunks, end.signal), /on purpose/),
  )
  await Promise.race(others.map(({ begun }) => begun))
  const queued = heldBody()
  const waiting = images.ensureFrom(sha256, queued.chunks, never)
  await new Promise(setImmediate)
  await images.ensure(sha256, { kind: 'url', url: fileWith(paths.tmp) }, never)
  await waiting
  assert.equal(queued.seen.chunks, 0)
  end.abort(new Error('on purpose'))
  await Promise.all(taking)
})
