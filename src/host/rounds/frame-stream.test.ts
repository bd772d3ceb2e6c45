import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { randomFrom } from '../../../test/sim/random.ts'
import { limits } from '../../config/limits.ts'
import { FRAME_HEAD_BYTES, FrameWriter } from '../../core/migration/frames.ts'
import { FrameDecoder } from '../../core/migration/frame-decoder.ts'
import { FileCutShort } from '../files/checksum.ts'
import { streamChecks } from './stream-checks.ts'
import { framesOf, groupsOf } from './frame-stream.ts'
import type { Extent } from '../../core/migration/extents.ts'
import type { GatedFile } from '../files/gated-file.ts'
import type { ExtentGroup } from './frame-stream.ts'

const { roundFrameBytesMax: READ_MAX, roundGapBytesMax: GAP_MAX, roundGroupExtentsMax: EXTENTS_MAX } = limits

async function grouped(extents: readonly Extent[]): Promise<ExtentGroup[]> {
  const asked = async function* (): AsyncGenerator<Extent, void> {
    yield* extents
  }
  return Array.fromAsync(groupsOf(asked()))
}

test('small stretches near each other are read together, and others alone', async () => {
  const at = (offset: number, length = 4096): Extent => ({ kind: 'data', offset, length })
  const near = [at(0), { kind: 'hole', offset: 8192, length: 4096 } as const, at(16_384), at(40_960)]
  const far = [at(40_960 + 4096 + GAP_MAX + 1)]
  const large = [at(READ_MAX, READ_MAX), at(2 * READ_MAX, READ_MAX)]
  const groups = await grouped([...near, ...far, ...large])
  assert.deepEqual(
    groups.map(({ extents }) => extents),
    [near, far, [large[0]], [large[1]]],
  )
  assert.deepEqual([groups[0]?.from, groups[0]?.to], [0, 45_056])
})

test('a group has a bounded number of extents, also of holes', async () => {
  const holes = Array.from({ length: 1000 }, (_, index): Extent => {
    return { kind: 'hole', offset: 8192 * index, length: 4096 }
  })
  const groups = await grouped(holes)
  assert.deepEqual(Math.max(...groups.map(({ extents }) => extents.length)), EXTENTS_MAX)
})

test('no group reads more than a frame may have, or more gaps than allowed, and no extent is lost', async () => {
  for (let seed = 1; seed <= 100; seed += 1) {
    const random = randomFrom(seed)
    const extents: Extent[] = []
    for (let offset = 0; extents.length < 500;) {
      const length = 4096 * (1 + Math.floor(random() ** 6 * (READ_MAX / 4096)))
      extents.push({ kind: random() < 0.8 ? 'data' : 'hole', offset, length })
      offset += length + 4096 * Math.floor(random() ** 3 * 20)
    }
    const groups = await grouped(extents)
    assert.deepEqual(
      groups.flatMap((group) => group.extents),
      extents,
    )
    for (const { extents: members, from, to } of groups) {
      assert.ok(to - from <= READ_MAX && members.length <= EXTENTS_MAX, `seed ${seed}`)
      const data = members.filter(({ kind }) => kind === 'data')
      assert.equal(from, data[0]?.offset ?? 0)
      for (const [index, { offset, length }] of data.entries()) {
        assert.ok(offset >= from && offset + length <= to)
        const next = data[index + 1]
        assert.ok(next === undefined || next.offset - offset - length <= GAP_MAX)
      }
    }
  }
})

const LENGTH = limits.roundFrameBytesMax
const FRAMES = 10

async function* largeExtents(): AsyncGenerator<Extent> {
  for (let frame = 0; frame < FRAMES; frame += 1)
    yield { kind: 'data', offset: frame * LENGTH, length: LENGTH }
}

/** Returns a stream of frames of which the first three are skipped, and how often its file was read. */
function skipping(spend: (bytes: number) => Promise<void>) {
  let reads = 0
  const read = async (_room: unknown, _at: number, length: number) => {
    reads += 1
    return { bytesRead: length }
  }
  const frames = framesOf({
    file: { read } as unknown as GatedFile,
    extents: largeExtents(),
    writer: new FrameWriter(streamChecks),
    from: 3 * LENGTH,
    skipped: { spend },
    onFrame: () => {},
    signal: new AbortController().signal,
  })
  return { frames, reads: () => reads }
}

test('frames that are read and not sent are paced', async () => {
  const spent: number[] = []
  const { frames } = skipping(async (bytes) => void spent.push(bytes))
  const sent = await Array.fromAsync(frames, ({ length }) => length)
  assert.deepEqual(spent, Array(3).fill(FRAME_HEAD_BYTES + LENGTH))
  assert.equal(sent.length, FRAMES - 3 + 1)
})

test('a stream whose skipped frames must wait reads no further', async () => {
  const pause = Promise.withResolvers<void>()
  const { frames, reads } = skipping(() => pause.promise)
  const first = frames.next()
  await new Promise(setImmediate)
  // The group that is skipped, and the one that is read ahead.
  assert.equal(reads(), 2)
  pause.resolve()
  assert.equal((await first).done, false)
  await frames.return()
})

const BLOCK = 4096
const EXTENTS: readonly Extent[] = [
  { kind: 'data', offset: 0, length: BLOCK },
  { kind: 'hole', offset: BLOCK, length: BLOCK },
  { kind: 'data', offset: 2 * BLOCK, length: BLOCK },
  { kind: 'data', offset: 4 * BLOCK, length: BLOCK },
]
const content = randomBytes(5 * BLOCK)

/** Reads the stream of a file, which gives at most half a block with each call. */
async function streamFrom(from: number, bytes: Buffer = content) {
  const read = async (into: Buffer, offset: number, length: number, position: number) => ({
    bytesRead: bytes.copy(into, offset, position, position + Math.min(length, BLOCK / 2)),
  })
  const ends: number[] = []
  const chunks: Buffer[] = []
  for await (const chunk of framesOf({
    file: { read } as unknown as GatedFile,
    extents: (async function* () {
      yield* EXTENTS
    })(),
    writer: new FrameWriter(streamChecks),
    from,
    skipped: { spend: async () => {} },
    onFrame: (end) => ends.push(end),
    signal: new AbortController().signal,
  }))
    chunks.push(Buffer.from(chunk))
  return { ends, stream: Buffer.concat(chunks) }
}

test('a stream has the bytes of the file at their places, however little a read gives', async () => {
  const { ends, stream } = await streamFrom(0)
  assert.deepEqual(
    ends,
    EXTENTS.map(({ offset, length }) => offset + length),
  )
  const decoder = new FrameDecoder({ sizeBytes: content.length, checks: streamChecks })
  const came: Extent[] = []
  for (const frame of decoder.push(stream)) {
    const { kind, offset, length } = frame
    came.push({ kind, offset, length })
    // The bytes of a frame are there until the next one.
    if (kind === 'data') assert.ok(content.subarray(offset, offset + length).equals(frame.bytes))
  }
  assert.ok(decoder.isWhole)
  assert.deepEqual(came, EXTENTS)
})

test('a stream that continues at the end of a frame is the rest of the whole one', async () => {
  const whole = (await streamFrom(0)).stream
  for (const from of [0, BLOCK, 2 * BLOCK, 3 * BLOCK, 5 * BLOCK]) {
    const { stream } = await streamFrom(from)
    assert.ok(whole.subarray(-stream.length).equals(stream), `${from}`)
    const left = EXTENTS.filter(({ offset }) => offset >= from)
    const bytes = left.reduce((sum, { kind, length }) => sum + 24 + (kind === 'data' ? length : 0), 0)
    assert.equal(stream.length, bytes + 24 + 32, `${from}`)
  }
})

test('a file that ends before its last extent fails the stream', async () => {
  await assert.rejects(streamFrom(0, content.subarray(0, -1)), FileCutShort)
})
