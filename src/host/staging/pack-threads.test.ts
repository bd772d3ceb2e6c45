import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import { HostFault } from '../../core/errors.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { CompressThreads, PackThread, StretchCutShort, threadBesideThis } from './pack-threads.ts'

const KIB = 1024
const terms = { level: 3, unwanted: new Int32Array(new SharedArrayBuffer(4)) }
const content = Buffer.concat([randomBytes(700 * KIB), Buffer.alloc(700 * KIB)])

function fileFor(t: TestContext): { readonly fd: number; readonly path: string } {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-thread-'))
  const path = join(directory, 'image')
  writeFileSync(path, content)
  const fd = openSync(path, 'r')
  t.after(() => {
    closeSync(fd)
    rmSync(directory, { recursive: true })
  })
  return { fd, path }
}

function threadFor(t: TestContext): PackThread {
  const thread = new PackThread(threadBesideThis)
  t.after(() => thread.end())
  return thread
}

const digest = (algorithm: string, bytes: Uint8Array): string =>
  createHash(algorithm).update(bytes).digest('hex')

test('a thread compresses stretches of a file, each to a separate frame with a checksum', async (t) => {
  const { fd } = fileFor(t)
  const threads = new CompressThreads(threadBesideThis, 2)
  await threads.use(async () => {
    const stretches = [
      { fd, from: 0, bytes: content.length },
      { fd, from: 100, bytes: 5 },
      { fd, from: 699 * KIB, bytes: 2 * KIB },
    ]
    const frames = await Promise.all(stretches.map((stretch) => threads.compress(stretch, terms)))
    for (const [index, frame] of frames.entries()) {
      const { from, bytes } = stretches[index] ?? { from: 0, bytes: 0 }
      assert.ok(zstdDecompressSync(frame).equals(content.subarray(from, from + bytes)))
      // Content_Checksum_flag of the frame's header descriptor (RFC 8878, 3.1.1.1.1).
      assert.equal((frame[4] ?? 0) & 4, 4)
    }
  })
})

test('a digest covers everything that a thread got since the last one, zeros too', async (t) => {
  const { fd } = fileFor(t)
  const thread = threadFor(t)
  for (let round = 0; round < 2; round += 1) {
    const steps = [
      thread.digest('image', { fd, from: 0, bytes: 1000 * KIB }),
      thread.digest('part', { fd, from: 3, bytes: 600 * KIB }),
      thread.digestZeros('image', 400 * KIB),
      thread.digest('part', { fd, from: 3 + 600 * KIB, bytes: 100 }),
    ]
    assert.equal((await thread.endDigest('image')).sha256, digest('sha256', content))
    const part = content.subarray(3, 103 + 600 * KIB)
    assert.deepEqual(await thread.endDigest('part'), {
      md5: digest('md5', part),
      sha256: digest('sha256', part),
    })
    await Promise.all(steps)
  }
})

test('a stretch beyond the end of the file and one that cannot be read fail differently', async (t) => {
  const { fd, path } = fileFor(t)
  const thread = threadFor(t)
  truncateSync(path, 100)
  await assert.rejects(thread.compress({ fd, from: 0, bytes: 101 }, terms), StretchCutShort)
  await assert.rejects(thread.digest('image', { fd, from: 100, bytes: 1 }), StretchCutShort)
  await assert.rejects(
    thread.compress({ fd: 1_000_000, from: 0, bytes: 1 }, terms),
    (error) => error instanceof ErrnoError && error.code === 'EBADF',
  )
  assert.equal(zstdDecompressSync(await thread.compress({ fd, from: 0, bytes: 100 }, terms)).length, 100)
})

test('tasks that are queued when a thread ends, and later ones, are refused', async (t) => {
  const { fd } = fileFor(t)
  const thread = threadFor(t)
  const reported = thread.compress({ fd, from: 0, bytes: content.length }, { ...terms, level: 19 })
  const refused = assert.rejects(reported, HostFault)
  await thread.end()
  await refused
  assert.ok(thread.isOver)
  await assert.rejects(thread.endDigest('part'), HostFault)
})

test('a task that is no longer wanted is not begun', async (t) => {
  const { fd } = fileFor(t)
  const thread = threadFor(t)
  const unwanted = new Int32Array(new SharedArrayBuffer(4))
  const stretch = { fd, from: 0, bytes: content.length }
  const first = thread.compress(stretch, { level: 3, unwanted })
  assert.ok(zstdDecompressSync(await first).equals(content))
  Atomics.store(unwanted, 0, 1)
  await assert.rejects(thread.compress(stretch, { level: 3, unwanted }), /packing was given up/)
  assert.ok(zstdDecompressSync(await thread.compress(stretch, terms)).equals(content))
})
