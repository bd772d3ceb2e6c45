import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { constants, zstdCompressSync } from 'node:zlib'
import { errorChain } from '../../src/log/error-chain.ts'
import { content, ensure, faultOf, serve, sha256, sha256Of, stageOf } from './image-fetch-stage.ts'

const MIB = 1024 * 1024
/** A frame that decoders skip (RFC 8878, 3.1.2), like a seek table. */
const skipped = Buffer.concat([Buffer.from([0x5e, 0x2a, 0x4d, 0x18, 5, 0, 0, 0]), Buffer.from('table')])
const frames = [0, 100_000, 250_000].map((from, at, all) =>
  zstdCompressSync(content.subarray(from, all[at + 1])),
)
const packed = Buffer.concat([...frames, skipped])
const bounds = { bytesMax: MIB, resumeDelayMs: () => 1 }

for (const [what, sent] of [
  ['one frame', zstdCompressSync(content)],
  ['many frames and a seek table', packed],
  ['a frame to skip first', Buffer.concat([skipped, packed])],
  ['the content as it is', content],
] as const) {
  test(`an image is accepted as ${what}, whatever its name and its headers say`, { skip }, async (t) => {
    for (const fields of [{}, { 'content-encoding': 'zstd', 'content-type': 'application/zstd' }]) {
      const { pool, stored, temporaries } = await stageOf(t)
      await ensure(
        pool({ bounds }),
        await serve(t, (_, response) => response.writeHead(200, fields).end(sent)),
      )
      assert.ok(stored().equals(content))
      assert.deepEqual(temporaries(), [])
    }
  })
}

test('a packed image is recognised by its first bytes, even if they come one by one', { skip }, async (t) => {
  const { pool, stored } = await stageOf(t)
  const url = await serve(t, (_request, response) => {
    response.socket?.setNoDelay()
    const next = (at: number): void => {
      if (at === 6) response.end(packed.subarray(at))
      else response.write(packed.subarray(at, at + 1), () => setImmediate(next, at + 1))
    }
    next(0)
  })
  await ensure(pool({ bounds }), url)
  assert.ok(stored().equals(content))
})

test('a packed image that breaks off is unpacked further from the same point', { skip }, async (t) => {
  const { pool, stored } = await stageOf(t)
  let count = 0
  const url = await serve(t, (request, response) => {
    count += 1
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
    response.writeHead(from > 0 ? 206 : 200, {
      etag: '"v1"',
      'content-length': packed.length - from,
      'content-range': `bytes ${from}-${packed.length - 1}/${packed.length}`,
    })
    response.write(packed.subarray(from, from + 70_001), () => response.destroy())
  })
  await ensure(pool({ bounds }), url)
  assert.ok(stored().equals(content))
  assert.ok(count > 3)
})

const damaged = Buffer.from(packed)
damaged.fill(0xff, 5000, 5100)

for (const [what, sent, message] of [
  ['cut', packed.subarray(0, 200_000), /decompressing it: it ends in the middle$/],
  [
    'cut between two frames',
    Buffer.concat(frames.slice(0, 2)),
    /what the image unpacks to has the SHA-256 [0-9a-f]{64}, not/,
  ],
  ['cut to its first bytes', packed.subarray(0, 5), /it ends in the middle$/],
  ['damaged', damaged, /ZSTD_error|what the image unpacks to/],
  ['followed by something', Buffer.concat([packed, Buffer.from('something')]), /follows its last frame$/],
  [
    'of another image',
    zstdCompressSync(Buffer.from('another')),
    /what the image unpacks to has the SHA-256 [0-9a-f]{64}, not/,
  ],
  ['in need of too much memory', withWindowOf256Mib(), /windowTooLarge$/],
] as const) {
  test(
    `a packed image that is ${what} is image_integrity_failed, and nothing of it stays`,
    { skip },
    async (t) => {
      const { pool, temporaries, images } = await stageOf(t)
      const url = await serve(t, (_, response) => response.end(sent))
      const fault = await faultOf(ensure(pool({ bounds }), url))
      assert.equal(fault.code, 'image_integrity_failed', errorChain(fault))
      assert.match(errorChain(fault), message)
      assert.deepEqual([temporaries(), images()], [[], []])
    },
  )
}

/** Returns a frame that declares a larger window than it needs, and no content size. */
function withWindowOf256Mib(): Buffer {
  // Frame header without content size: magic, descriptor 0, window descriptor with exponent 18 (RFC 8878, 3.1.1.1.2).
  const header = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 18 << 3])
  // The last block, raw, of one byte.
  return Buffer.concat([header, Buffer.from([0x09, 0x00, 0x00, 0x78])])
}

test('an image that unpacks to more than the bound is given up', { skip }, async (t) => {
  const { pool, temporaries, images } = await stageOf(t)
  const bomb = zstdCompressSync(Buffer.alloc(512 * MIB))
  assert.ok(bomb.length < 100_000)
  const fault = await faultOf(ensure(pool({ bounds }), await serve(t, (_, response) => response.end(bomb))))
  assert.match(errorChain(fault), /more than the 1 MiB/)
  assert.deepEqual([temporaries(), images()], [[], []])
})

test('an image that is itself packed, as an initrd often is, is kept as it is', { skip }, async (t) => {
  const initrd = zstdCompressSync(Buffer.from('070701…'))
  for (const sent of [initrd, Buffer.concat([initrd, randomBytes(1000)])]) {
    const { pool, stored } = await stageOf(t)
    const digest = sha256Of(sent)
    const url = await serve(t, (_, response) => response.end(sent))
    await ensure(pool({ bounds }), url, { digest })
    assert.ok(stored(digest).equals(sent))
  }
})

test(
  'a packed image in the local directory is unpacked too, and its zeros take no space',
  { skip },
  async (t) => {
    const { pool, base, stored, directory } = await stageOf(t)
    const local = join(base, 'images')
    mkdirSync(local)
    const sparse = Buffer.concat([Buffer.alloc(64 * MIB), content])
    const params = { [constants.ZSTD_c_checksumFlag]: 1 }
    writeFileSync(join(local, 'image.raw'), zstdCompressSync(sparse, { params }))
    const digest = sha256Of(sparse)
    await ensure(pool({ localImagesDirectory: local }), `file://${local}/image.raw`, { digest })
    assert.ok(stored(digest).equals(sparse))
    assert.ok(statSync(join(directory, 'images', digest)).blocks * 512 < 2 * MIB)
    assert.notEqual(digest, sha256)
  },
)
