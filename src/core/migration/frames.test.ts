import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { randomFrom } from '../../../test/sim/random.ts'
import { limits } from '../../config/limits.ts'
import { ExtentCutter } from './extents.ts'
import { BrokenStream, FrameDecoder } from './frame-decoder.ts'
import { FRAME_HEAD_BYTES, FrameWriter } from './frames.ts'
import type { Checks, Frame } from './frames.ts'
import type { Extent } from './extents.ts'

const checks: Checks = { crc32, sha256: () => createHash('sha256') }
const MAX = limits.roundFrameBytesMax
const SIZE = 8 * MAX

const CONTENT = randomBytes(SIZE + 1)
const bytesAt = (offset: number, length: number): Buffer => CONTENT.subarray(offset, offset + length)

function rendered(writer: FrameWriter, { kind, offset, length }: Extent): Uint8Array {
  if (kind === 'hole') return writer.hole({ offset, length })
  const frame = Buffer.concat([Buffer.alloc(FRAME_HEAD_BYTES), bytesAt(offset, length)])
  writer.finishData(offset, frame)
  return frame
}

/** Returns the frames of some extents, the end included. */
function framesOf(extents: readonly Extent[]): Uint8Array[] {
  const writer = new FrameWriter(checks)
  return [...extents.map((extent) => rendered(writer, extent)), writer.end()]
}

const decoderOf = (sizeBytes = SIZE): FrameDecoder => new FrameDecoder({ sizeBytes, checks })

/** Pushes a stream in chunks, and returns copies of its frames. */
function decoded(
  decoder: FrameDecoder,
  stream: Uint8Array,
  chunkBytes: () => number = () => stream.length,
): Frame[] {
  const frames: Frame[] = []
  for (let at = 0; at < stream.length;) {
    const end = at + chunkBytes()
    for (const frame of decoder.push(stream.subarray(at, end)))
      frames.push(frame.kind === 'hole' ? frame : { ...frame, bytes: Buffer.from(frame.bytes) })
    at = end
  }
  return frames
}

const expectedOf = (extents: readonly Extent[]): Frame[] =>
  extents.map(({ kind, offset, length }) =>
    kind === 'hole' ? { kind, offset, length } : { kind, offset, length, bytes: bytesAt(offset, length) },
  )

function randomExtents(random: () => number, sizeBytes = SIZE): Extent[] {
  const extents: Extent[] = []
  for (let offset = 0; offset < sizeBytes;) {
    const length = Math.min(1 + Math.floor(random() * MAX), sizeBytes - offset)
    if (random() < 0.7) extents.push({ kind: random() < 0.6 ? 'data' : 'hole', offset, length })
    offset += length
  }
  return extents
}

const SOME: readonly Extent[] = [
  { kind: 'data', offset: 0, length: 1000 },
  { kind: 'hole', offset: 5000, length: 3 * MAX },
  { kind: 'data', offset: 4 * MAX, length: MAX },
]

test('frames are decoded as they were written, whatever the chunks', () => {
  for (let seed = 1; seed <= 30; seed += 1) {
    const random = randomFrom(seed)
    const extents = randomExtents(random)
    const decoder = decoderOf()
    const chunkBytes = (): number => 1 + Math.floor(random() ** 4 * 3 * MAX)
    assert.deepEqual(decoded(decoder, Buffer.concat(framesOf(extents)), chunkBytes), expectedOf(extents))
    assert.ok(decoder.isWhole, `seed ${seed}`)
  }
  const decoder = decoderOf()
  const stream = Buffer.concat(framesOf(SOME.slice(0, 2)))
  assert.deepEqual(
    decoded(decoder, stream, () => 1),
    expectedOf(SOME.slice(0, 2)),
  )
  assert.ok(decoder.isWhole)
})

test('a round without a change is an end alone', () => {
  const decoder = decoderOf()
  assert.deepEqual(decoded(decoder, Buffer.concat(framesOf([]))), [])
  assert.ok(decoder.isWhole)
})

test('a stream that is cut anywhere continues at the end of the last whole frame', () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const random = randomFrom(seed)
    const extents = randomExtents(random)
    const frames = framesOf(extents)
    const decoder = decoderOf()
    const seen: Frame[] = []
    for (let from = 0; !decoder.isWhole;) {
      const first = extents.findIndex(({ offset }) => offset >= from)
      const rest = Buffer.concat(first === -1 ? frames.slice(-1) : frames.slice(first))
      const cut = random() < 0.3 ? rest.length : Math.floor(random() * rest.length)
      seen.push(...decoded(decoder, rest.subarray(0, cut)))
      from = decoder.cut()
    }
    assert.deepEqual(seen, expectedOf(extents), `seed ${seed}`)
  }
})

test('a stream of which any one byte was changed is refused, or never whole', () => {
  const stream = Buffer.concat(framesOf(SOME.slice(0, 2)))
  for (let at = 0; at < stream.length; at += 1) {
    for (const bit of [1, 0x80]) {
      const damaged = Buffer.from(stream)
      damaged[at] = (damaged[at] ?? 0) ^ bit
      const decoder = decoderOf()
      try {
        decoded(decoder, damaged)
      } catch (error) {
        assert.ok(error instanceof BrokenStream, String(error))
      }
      assert.ok(!decoder.isWhole, `byte ${at}`)
    }
  }
})

test('noise is refused, and never more than a broken stream', () => {
  for (let seed = 1; seed <= 300; seed += 1) {
    const random = randomFrom(seed)
    const noise = Buffer.from(Array.from({ length: 2000 }, () => (random() < 0.6 ? 0 : random() * 256)))
    noise[4] = 1 + (seed % 3)
    noise.fill(0, 5, 8)
    const decoder = decoderOf()
    assert.throws(() => decoded(decoder, noise, () => 1 + Math.floor(random() * 300)), BrokenStream)
    assert.ok(!decoder.isWhole)
  }
})

test('frames that descend, overlap, are empty, too long or beyond the disk are refused', () => {
  const [first, second] = [SOME[0] as Extent, SOME[1] as Extent]
  const bad: readonly (readonly [readonly Extent[], RegExp])[] = [
    [[second, first], /begins at 0, and the last one ends at/],
    [[first, { ...second, offset: 999 }], /begins at 999, and the last one ends at 1000/],
    [[{ kind: 'hole', offset: SIZE - 1, length: 2 }], /goes beyond the end/],
    [[{ kind: 'hole', offset: 2 ** 53, length: 1 }], /goes beyond the end/],
    [[{ kind: 'data', offset: 0, length: 0 }], /has 0 bytes/],
    [[{ kind: 'data', offset: 0, length: MAX + 1 }], /has \d+ bytes/],
  ]
  for (const [extents, because] of bad)
    assert.throws(() => decoded(decoderOf(), Buffer.concat(framesOf(extents))), because)
})

test('a whole stream of other frames, with bytes behind its end, or with another count is refused', () => {
  const frames = framesOf(SOME)
  const streamOf = (...parts: readonly (Uint8Array | undefined)[]): Buffer =>
    Buffer.concat(parts.map((part) => part ?? Buffer.alloc(0)))
  const others = framesOf([SOME[0] as Extent])
  assert.throws(() => decoded(decoderOf(), streamOf(...frames, others[0])), /bytes behind the end/)
  assert.throws(
    () => decoded(decoderOf(), streamOf(...frames.slice(0, 2), frames[3])),
    /2 of 3 frames arrived/,
  )
  const same = framesOf([{ ...(SOME[0] as Extent), length: 999 }])
  assert.throws(() => decoded(decoderOf(), streamOf(others[0], same[1])), /do not have the digest/)
})

test('a stream that ended early is not whole', () => {
  const stream = Buffer.concat(framesOf(SOME))
  for (const end of [0, 1, FRAME_HEAD_BYTES, stream.length - 1]) {
    const decoder = decoderOf()
    decoded(decoder, stream.subarray(0, end))
    assert.ok(!decoder.isWhole)
  }
})

test('a writer that continues from a copy writes the same end', () => {
  const writer = new FrameWriter(checks)
  rendered(writer, SOME[0] as Extent)
  const copy = writer.copy()
  for (const one of [writer, copy]) for (const extent of SOME.slice(1)) rendered(one, extent)
  assert.deepEqual(copy.end(), writer.end())
})

test('pieces are the same however the extents are divided, and from the end of any piece on', () => {
  const cutOf = (extents: readonly Extent[]): Extent[] => {
    const cutter = new ExtentCutter(MAX)
    return [...extents.flatMap((extent) => [...cutter.add(extent)]), ...cutter.end()]
  }
  const divided = (extents: readonly Extent[], random: () => number): Extent[] =>
    extents.flatMap(({ kind, offset, length }) => {
      const first = Math.floor(random() * length)
      const parts = [
        { kind, offset, length: first },
        { kind, offset: offset + first, length: length - first },
      ]
      return parts.filter((part) => part.length > 0)
    })
  for (let seed = 1; seed <= 200; seed += 1) {
    const random = randomFrom(seed)
    const extents = randomExtents(random, 40 * MAX).map((extent) => ({
      ...extent,
      kind: random() < 0.7 ? ('data' as const) : ('hole' as const),
    }))
    const pieces = cutOf(extents)
    assert.deepEqual(cutOf(divided(divided(extents, random), random)), pieces, `seed ${seed}`)
    for (const { kind, offset, length } of pieces)
      assert.ok(kind === 'hole' || Math.floor(offset / MAX) === Math.floor((offset + length - 1) / MAX))
    const total = (all: readonly Extent[]): number => all.reduce((sum, { length }) => sum + length, 0)
    assert.equal(total(pieces), total(extents))
    const { offset, length } = pieces[Math.floor(random() * pieces.length)] as Extent
    const end = offset + length
    const rest = extents
      .filter((extent) => extent.offset + extent.length > end)
      .map((extent) => {
        const from = Math.max(extent.offset, end)
        return { ...extent, offset: from, length: extent.offset + extent.length - from }
      })
    const following = pieces.filter((piece) => piece.offset >= end)
    assert.deepEqual(cutOf(rest), following, `seed ${seed}`)
  }
})
