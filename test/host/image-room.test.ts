/** Images that are larger than their disk or than the room in the pool, while another process writes to the pool. */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { zstdCompressSync } from 'node:zlib'
import { HostFault } from '../../src/core/errors.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { atEnd } from '../contract/at-end.ts'
import { until } from '../contract/until.ts'
import type { TestContext } from 'node:test'
import type { Sha256 } from '../../src/core/ids.ts'
import type { ImageBound } from '../../src/ports/storage.ts'
import { content, ensure, faultOf, never, outboundOf, serve, stageOf } from './image-fetch-stage.ts'
import { markPool } from '../../src/host/pool/pool-marker.ts'
import { Pool } from '../../src/host/storage/pool.ts'
import { silentLog } from '../../src/log/log.ts'
import { poolOn } from './pool-on.ts'
import { run } from './run.ts'

const MIB = 1024 * 1024
const RESERVE_MIB = 100
const WRITE_BYTES = 64 * 1024
/** The unit of `st_blocks`; see inode(7). */
const STAT_BLOCK_BYTES = 512
/** The image unpacks to more than the pool has; zeros would become holes. */
const IMAGE_MIB = 1024
const bomb = zstdCompressSync(Buffer.alloc(IMAGE_MIB * MIB, 0xaa))
const sha256Of = (bytes: Uint8Array): Sha256 => createHash('sha256').update(bytes).digest('hex') as Sha256
/** The digest of the unpacked image is not needed: unpacking never reaches the end. */
const anyDigest = sha256Of(Buffer.from('the bomb'))

const freeMib = (path: string): number => {
  const { bavail, bsize } = statfsSync(path)
  return (bavail * bsize) / MIB
}

/**
 * Writes to the pool as a guest does, until it is stopped. Reports the smallest amount in MiB that others left free:
 * the blocks of the writer's own file count as free, because the reserve is there for them.
 */
function writerOn(t: TestContext, mountPoint: string) {
  const stop = new AbortController()
  let least = freeMib(mountPoint)
  const written = (async () => {
    const file = await open(join(mountPoint, 'guest'), 'w')
    const block = randomBytes(WRITE_BYTES)
    try {
      while (!stop.signal.aborted) {
        await file.write(block)
        await file.datasync()
        const { size, blocks } = await file.stat()
        least = Math.min(least, freeMib(mountPoint) + (blocks * STAT_BLOCK_BYTES) / MIB)
        // Only some MiB over the whole test: the room is for the image to take.
        if (size > 8 * MIB) await file.truncate()
      }
    } finally {
      await file.close()
    }
    return least
  })()
  const leastFreeMib = (): Promise<number> => {
    stop.abort()
    return written
  }
  // A test that failed before it asked must not leave it running.
  atEnd(t, leastFreeMib)
  return { leastFreeMib }
}

test('storing an image leaves the reserve of the pool to guests that write', { skip }, async (t) => {
  const { reopen, offer, mountPoint } = await poolOn('xfs', t)
  const pool = reopen({ reserveMib: RESERVE_MIB })
  const source = await offer(bomb)
  const writer = writerOn(t, mountPoint)
  const fault = await faultOf(pool.ensureImage(anyDigest, source, never))
  assert.equal(fault.code, 'storage_full')
  assert.match(errorChain(fault), /less than its reserve of 100 MiB/)
  const before = freeMib(mountPoint)
  // The pool has no more room than it had, so nothing is read.
  rmSync(fileURLToPath(source.url.reveal()))
  const again = await faultOf(pool.ensureImage(anyDigest, source, never))
  assert.equal(again.code, 'storage_full')
  // Nothing of a refused image stays. XFS frees blocks some time after their file is gone.
  await until(
    () => freeMib(mountPoint),
    (free) => free > before - 16,
  )
  const least = await writer.leastFreeMib()
  assert.ok(least >= RESERVE_MIB, `${least} MiB were left of the pool`)
})

/** A pool with a reserve of 16 MiB, on a file system of 128 MiB that frees blocks at once. */
async function smallPool(t: TestContext) {
  const mountPoint = mkdtempSync(join(tmpdir(), 'vmh-room-'))
  atEnd(t, () => rmSync(mountPoint, { recursive: true }))
  await run(['mount', '-t', 'tmpfs', '-o', 'size=128m', 'none', mountPoint])
  atEnd(t, () => run(['umount', mountPoint]))
  const directory = join(mountPoint, 'pool')
  const { poolId } = await markPool(directory)
  const pool = new Pool({ directory, poolId, outbound: outboundOf(t), reserveMib: 16, log: silentLog })
  return { pool, mountPoint, temporaries: () => readdirSync(join(directory, 'tmp')) }
}

test('an image that others left no room for is fetched as soon as they give it back', { skip }, async (t) => {
  const { pool, mountPoint } = await smallPool(t)
  const image = randomBytes(16 * MIB)
  const digest = sha256Of(image)
  const other = join(mountPoint, 'other')
  let asked = 0
  const url = await serve(t, (_request, response) => {
    asked += 1
    // What takes the room comes when the fetch has already looked for it.
    if (asked > 1) response.end(image)
    else void writeFile(other, randomBytes(80 * MIB)).then(() => response.end(image))
  })
  const fault = await faultOf(ensure(pool, url, { digest }))
  assert.match(errorChain(fault), /the pool would have less than its reserve of 16 MiB free$/)
  const again = await faultOf(ensure(pool, url, { digest }))
  assert.match(
    errorChain(again),
    /its reserve of 16 MiB were too little for an earlier fetch of it, and there is not much more room now$/,
  )
  assert.equal(asked, 1)
  rmSync(other)
  await ensure(pool, url, { digest })
  assert.equal(asked, 2)
})

test(
  'if an image is fetched from two sources and has room only once, both callers get it',
  { skip },
  async (t) => {
    const { pool, temporaries } = await smallPool(t)
    const image = randomBytes(48 * MIB)
    const digest = sha256Of(image)
    const { promise: goesOn, resolve: goOn } = Promise.withResolvers<void>()
    const { promise: hasBegun, resolve: begun } = Promise.withResolvers<void>()
    const { promise: isRefused, resolve: refused } = Promise.withResolvers<void>()
    const slow = await serve(t, (_request, response) => {
      response.write(image.subarray(0, 40 * MIB), () => begun())
      void goesOn.then(() => response.end(image.subarray(40 * MIB)))
    })
    let asked = 0
    const fast = await serve(t, (_request, response) => {
      asked += 1
      response.once('close', refused).end(image)
    })
    const first = ensure(pool, slow, { digest })
    await hasBegun
    const second = ensure(pool, fast, { digest })
    await isRefused
    await until(temporaries, (files) => files.length === 1)
    goOn()
    await Promise.all([first, second])
    assert.equal(asked, 1)
  },
)

test(
  'an image that twice is not what its digest says is asked for again only under another URL',
  { skip },
  async (t) => {
    const { pool: poolOf } = await stageOf(t)
    const pool = poolOf()
    let asked = 0
    let body = content.subarray(1)
    const url = await serve(t, (_request, response) => {
      asked += 1
      response.end(body)
    })
    for (const asks of [1, 2, 2]) {
      assert.equal((await faultOf(ensure(pool, url))).code, 'image_integrity_failed')
      assert.equal(asked, asks)
    }
    body = content
    await ensure(pool, `${url}&fresh=1`)
    assert.equal(asked, 3)
  },
)

test('an image never unpacks beyond the disk that it is for', { skip }, async (t) => {
  const { reopen, offer, mountPoint, storage } = await poolOn('xfs', t)
  const source = await offer(bomb)
  const before = freeMib(mountPoint)
  const writer = writerOn(t, mountPoint)
  const bound: ImageBound = { bytesMax: 32 * MIB, excess: 'disk_smaller_than_image' }
  const fault = await faultOf(reopen().ensureImage(anyDigest, source, never, bound))
  assert.equal(fault.code, 'disk_smaller_than_image')
  assert.equal(fault.retry, 'on-change')
  assert.match(errorChain(fault), /more than the 32 MiB that the disk has/)
  const least = await writer.leastFreeMib()
  // XFS reserves the same size again for a growing file, until it is closed.
  assert.ok(before - least < 2 * 32 + 16, `${before - least} MiB were taken`)
  const whole = randomBytes(3 * MIB)
  const exact: ImageBound = { bytesMax: whole.length, excess: 'disk_smaller_than_image' }
  // Incompressible data is longer packed than unpacked.
  await storage.ensureImage(sha256Of(whole), await offer(zstdCompressSync(whole)), never, exact)
})

test(
  'an image that is too large is fetched once, and again for a larger disk or another URL',
  { skip },
  async (t) => {
    const { pool: poolOf, images } = await stageOf(t)
    const pool = poolOf()
    let asked = 0
    const url = await serve(t, (_request, response) => {
      asked += 1
      response.end(content)
    })
    const bound = (bytesMax: number): ImageBound => ({ bytesMax, excess: 'disk_smaller_than_image' })
    const fails = async (on: string, bytesMax: number): Promise<HostFault> =>
      faultOf(ensure(pool, on, { bound: bound(bytesMax) }))
    for (const [on, bytesMax, asks] of [
      [url, 1000, 1],
      [url, 1000, 1],
      [url, 999, 1],
      [url, 1001, 2],
      [`${url}&fresh=1`, 1000, 3],
    ] as const) {
      assert.equal((await fails(on, bytesMax)).code, 'disk_smaller_than_image')
      assert.equal(asked, asks)
    }
    assert.deepEqual(images(), [])
    // Two callers wait for it together; the one with the larger disk gets it.
    const small = fails(`${url}&fresh=2`, 1000)
    await Promise.all([small, ensure(pool, `${url}&fresh=2`, { bound: bound(content.length) })])
    assert.equal(images().length, 1)
  },
)
