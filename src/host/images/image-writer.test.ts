import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import type { Sha256 } from '../../core/ids.ts'
import type { ThreadSource } from '../threads/task-thread.ts'
import { hungPath } from '../../../test/hung-open.ts'
import { until } from '../../../test/contract/until.ts'
import { errorChain } from '../../log/error-chain.ts'
import { NoAnswer } from '../files/bounded-calls.ts'
import { FetchPlaces } from './fetch-places.ts'
import type { PlacedFetch } from './fetch-places.ts'
import { ImageWriter, imageThreadBesideThis } from './image-writer.ts'
import { open } from '../files/pool-files.ts'

const MIB = 1024 * 1024

/** Data and zeros, neither of whole blocks, and longer than the step in which a thread reports its progress. */
const content = Buffer.concat([
  randomBytes(1_300_007),
  Buffer.alloc(9 * MIB + 5),
  randomBytes(9 * MIB + 11),
  Buffer.alloc(3),
])
const packed = Buffer.concat(
  [0, 700_001, 5 * MIB].map((from, at, all) => zstdCompressSync(content.subarray(from, all[at + 1]))),
)

const sha256Of = (bytes: Uint8Array): Sha256 => createHash('sha256').update(bytes).digest('hex') as Sha256

type Options = {
  readonly source?: ThreadSource
  readonly sha256?: Sha256
  readonly bytesMax?: number
  readonly reserveBytes?: number
  readonly signal?: AbortSignal
  readonly boundMs?: number
  readonly flags?: string
  /** The path of the file; without it, a new empty file. */
  readonly path?: string
}

async function stage(t: TestContext, options: Options = {}) {
  const {
    source = imageThreadBesideThis,
    sha256 = sha256Of(content),
    bytesMax = 100 * MIB,
    reserveBytes = 0,
  } = options
  const { signal = new AbortController().signal, flags = 'r+', boundMs = 60_000 } = options
  const directory = mkdtempSync(join(tmpdir(), 'image-writer-'))
  const { path = join(directory, 'image') } = options
  writeFileSync(path, '')
  const file = await open(path, flags)
  const writer = new ImageWriter({
    source,
    file,
    terms: { sha256, bound: { bytesMax, excess: 'image_too_large' }, reserveBytes },
    signal,
    boundMs,
  })
  t.after(async () => {
    await writer.end()
    rmSync(directory, { recursive: true })
  })
  return { writer, path, file }
}

/** Puts the bytes in pieces, and returns whether all were accepted. The pieces are reused, as a source may do. */
async function putAll(writer: ImageWriter, bytes: Uint8Array, pieceBytes: number): Promise<boolean> {
  const piece = Buffer.alloc(pieceBytes)
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    const part = bytes.subarray(at, at + pieceBytes)
    piece.set(part)
    if (!(await writer.put(piece.subarray(0, part.length)))) return false
    piece.fill(0xff)
  }
  return true
}

for (const [what, sent, unpacks] of [
  ['as it is', content, false],
  ['packed', packed, true],
] as const) {
  for (const pieceBytes of [65_537, 3 * MIB]) {
    test(`content ${what} in pieces of ${pieceBytes} bytes is stored, its zeros as holes`, async (t) => {
      const { writer, path } = await stage(t)
      writer.begin(unpacks)
      assert.ok(await putAll(writer, sent, pieceBytes))
      await writer.finish()
      assert.ok(readFileSync(path).equals(content))
      assert.ok(statSync(path).blocks * 512 < content.length - 8 * MIB)
    })
  }
}

test('empty content is an image too', async (t) => {
  const { writer, path } = await stage(t, { sha256: sha256Of(Buffer.alloc(0)) })
  writer.begin(false)
  await writer.finish()
  assert.equal(statSync(path).size, 0)
})

for (const [what, options, bytes, unpacks, failure] of [
  ['is another image', {}, content.subarray(1), false, { code: 'image_integrity_failed' }],
  ['is cut', {}, packed.subarray(0, -5), true, { code: 'image_integrity_failed' }],
  ['is not zstd', {}, content, true, { code: 'image_integrity_failed' }],
  ['unpacks to too much', { bytesMax: MIB }, packed, true, { code: 'image_too_large' }],
  [
    'would leave too little free',
    { reserveBytes: Number.MAX_SAFE_INTEGER },
    content,
    false,
    { code: 'storage_full' },
  ],
  ['cannot be written', { flags: 'r' }, content, false, { code: 'EBADF', errno: -9 }],
] as const) {
  test(`content that ${what} fails, and the fault says why`, async (t) => {
    const { writer } = await stage(t, options)
    writer.begin(unpacks)
    await putAll(writer, bytes, MIB)
    await assert.rejects(writer.finish(), failure)
    assert.equal(await writer.put(bytes), false)
  })
}

test('content that is too long is named as the image, with its bound', async (t) => {
  const { writer } = await stage(t, { bytesMax: MIB })
  writer.begin(false)
  await putAll(writer, content, MIB)
  const words = 'receiving it: the image has more than the 1 MiB that this host takes'
  await assert.rejects(writer.finish(), (error: Error) => errorChain(error) === words)
})

for (const [subject, sent, unpacks] of [
  ['the image', Buffer.from('another'), false],
  ['what the image unpacks to', zstdCompressSync(Buffer.from('another')), true],
] as const) {
  test(`a wrong digest of ${subject} is named with the one that was asked for`, async (t) => {
    const { writer } = await stage(t)
    writer.begin(unpacks)
    await putAll(writer, sent, MIB)
    const found = sha256Of(Buffer.from('another'))
    const words = `${subject} has the SHA-256 ${found}, not the ${sha256Of(content)} that was asked for`
    await assert.rejects(writer.finish(), (error: Error) => errorChain(error) === `verifying it: ${words}`)
  })
}

test('a failed writer accepts nothing more, however much comes', async (t) => {
  const { writer } = await stage(t, { flags: 'r' })
  writer.begin(false)
  const piece = randomBytes(MIB)
  while (await writer.put(piece));
  await assert.rejects(writer.finish(), { code: 'EBADF' })
})

test('a thread that ends by itself is storage_failed', async (t) => {
  const { writer } = await stage(t, { source: () => 'process.exit(0)' })
  writer.begin(false)
  await assert.rejects(writer.finish(), { code: 'storage_failed' })
})

test('a bug in a thread is reported as a bug', async (t) => {
  const { writer } = await stage(t, { source: () => 'throw new TypeError("a mistake")' })
  writer.begin(false)
  await assert.rejects(writer.finish(), new TypeError('a mistake'))
})

/** A thread that receives messages and does nothing with them. */
const idle: ThreadSource = () => 'require("node:worker_threads").parentPort.on("message", () => {})'

test('what the thread has not taken waits at its source, and both waits end with the abort', async (t) => {
  const leaving = new AbortController()
  const { writer } = await stage(t, { source: idle, signal: leaving.signal })
  writer.begin(false)
  // As many bytes as may be under way.
  assert.ok(await putAll(writer, Buffer.alloc(2 * MIB), MIB))
  const put = writer.put(Buffer.alloc(1))
  const reason = new Error('the packing was given up')
  leaving.abort(reason)
  await assert.rejects(put, reason)
  await assert.rejects(writer.finish(), reason)
})

test('flushing begins before the end, and a failed flush is storage_failed', async (t) => {
  // A device has no stretches to write out: sync_file_range(2) refuses it.
  const source: ThreadSource = () => `
    const { parentPort } = require('node:worker_threads')
    parentPort.postMessage({ kind: 'written', bytes: 8 })
    parentPort.on('message', ({ kind }) => kind === 'end' && parentPort.postMessage({ kind: 'stored' }))`
  const { writer } = await stage(t, { source, path: '/dev/null' })
  writer.begin(false)
  await assert.rejects(writer.finish(), { code: 'storage_failed' })
})

test('a source that is slower than the bound of a write is waited for', async (t) => {
  const { writer } = await stage(t, { boundMs: 20 })
  writer.begin(false)
  for (let at = 0; at < 5; at += 1) {
    assert.ok(await writer.put(content.subarray(at, at + 1)))
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
  assert.equal(writer.failure, undefined)
})

test('a write that hangs fails the fetch, and keeps its place and the file open until it ends', async (t) => {
  const hung = hungPath(t)
  const begun = `${hung.path}-begun`
  const source: ThreadSource = () => `
    const { openSync, writeFileSync } = require('node:fs')
    writeFileSync(${JSON.stringify(begun)}, '')
    openSync(${JSON.stringify(hung.path)})`
  const places = new FetchPlaces(1)
  const { signal } = new AbortController()
  const { writer, file } = await stage(t, { source, boundMs: 50 })
  const run = (fetch: PlacedFetch['fetch']): Promise<void> =>
    places.run({ source: 'store', isRepeatable: true, fetch }, signal)
  const storing = run(async (_until, onThread) => {
    onThread(writer)
    writer.begin(false)
    // A thread that has not begun to write ends at once, and frees the place.
    await until(
      () => existsSync(begun),
      (isThere) => isThere,
    )
    try {
      await writer.finish()
    } finally {
      await writer.end()
    }
  })
  const waiting = run(async () => assert.fail('it has no place'))
  await assert.rejects(storing, NoAnswer)
  await assert.rejects(waiting, NoAnswer)
  await assert.rejects(
    run(async () => assert.fail('it has no place')),
    NoAnswer,
  )
  assert.ok((await file.stat()).isFile())
  hung.release()
  await writer.ended
  // The place is free, and the file closed, some turns of the event loop after the thread has ended.
  const outcomeOf = (call: Promise<unknown>): Promise<unknown> =>
    call.then(
      () => 'done',
      (error: NodeJS.ErrnoException) => error.code,
    )
  await until(
    () => outcomeOf(run(async () => {})),
    (outcome) => outcome === 'done',
  )
  await until(
    () => outcomeOf(file.stat()),
    (outcome) => outcome === 'EBADF',
  )
})
