import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { changesOf } from './changes.ts'
import { QuietStretches } from './kept-of-streams.ts'
import type { PhysicalExtent } from '../../core/migration/changed-extents.ts'
import type { Extent } from '../../core/migration/extents.ts'
import type { GatedFile } from '../files/gated-file.ts'

const BLOCK = 4096
const BLOCKS = 40 * limits.quietPagesMin * limits.mapExtentsMax
const never = new AbortController().signal

/** A file of blocks of which each has its own place, and the calls for its map. */
function mapped(placeOf: (block: number) => number) {
  const calls = { count: 0 }
  const readMap = async (offset: number, extentsMax: number) => {
    calls.count += 1
    const first = offset / BLOCK
    const length = Math.min(extentsMax, BLOCKS - first)
    const extents = Array.from({ length }, (_, index): PhysicalExtent => {
      const block = first + index
      return { logical: block * BLOCK, physical: placeOf(block) * BLOCK, length: BLOCK, flags: 0 }
    })
    return { extents, isLast: first + length === BLOCKS }
  }
  return { file: { readMap } as unknown as GatedFile, calls }
}

const WRITTEN = new Set([3, 4, BLOCKS / 2, BLOCKS - 1])

/** Two clones between which a few blocks were written, far from each other. */
function stage() {
  const before = mapped((block) => 2 * block)
  const now = mapped((block) => 2 * block + (WRITTEN.has(block) ? 1 : 0))
  const clones = {
    before: before.file,
    now: now.file,
    sizeBytes: BLOCKS * BLOCK,
    quiet: new QuietStretches(),
  }
  return {
    clones,
    changes: (from = 0, signal = never): Promise<Extent[]> =>
      Array.fromAsync(changesOf(clones, from, signal)),
    /** Returns how often a map was read since the last call. */
    calls: (): number => {
      const count = before.calls.count + now.calls.count
      before.calls.count = now.calls.count = 0
      return count
    },
  }
}

test('a stretch without a change is read once, and passed over by those who read later', async () => {
  const { changes, calls } = stage()
  const found = await changes()
  assert.equal(found.length, 3)
  assert.ok(calls() >= (2 * BLOCKS) / limits.mapExtentsMax)
  assert.deepEqual(await changes(), found)
  // Beside each change fewer pages than a stretch that is kept.
  assert.ok(calls() <= 2 * 2 * WRITTEN.size * limits.quietPagesMin)
  const [first, ...rest] = found
  assert.deepEqual(await changes((first?.offset ?? 0) + (first?.length ?? 0)), rest)
  assert.deepEqual(await changes(7 * limits.mapExtentsMax * BLOCK), rest)
})

test('a reader who is cut off leaves what it has read to the next one', async () => {
  const { clones, calls, changes } = stage()
  const cut = new AbortController()
  const walk = changesOf(clones, 0, cut.signal)
  await walk.next()
  const half = calls()
  await walk.return()
  assert.ok(half >= BLOCKS / limits.mapExtentsMax)
  await changes()
  assert.ok(calls() <= half + 2 * 2 * WRITTEN.size * limits.quietPagesMin)
})

test('stretches that are noted in any order are found, and their number is bounded', () => {
  const quiet = new QuietStretches()
  for (const [from, to] of [
    [100, 200],
    [0, 50],
    [200, 300],
    [60, 70],
  ] as const)
    quiet.note(from, to)
  assert.deepEqual(
    [0, 49, 50, 65, 70, 100, 250, 300].map((offset) => quiet.endOf(offset)),
    [50, 50, undefined, 70, undefined, 300, 300, undefined],
  )
  for (let at = 0; at < 2 * limits.quietStretchesMax; at += 1) quiet.note(1000 + 10 * at, 1005 + 10 * at)
  assert.equal(quiet.endOf(1000), 1005)
  assert.equal(quiet.endOf(1000 + 10 * (2 * limits.quietStretchesMax - 1)), undefined)
})

test('a change ends with the disk, also if its last block goes on behind it', async () => {
  const { clones } = stage()
  const sizeBytes = BLOCKS * BLOCK - 100
  const found = await Array.fromAsync(changesOf({ ...clones, sizeBytes }, 0, never))
  assert.deepEqual(found.at(-1), { kind: 'data', offset: (BLOCKS - 1) * BLOCK, length: BLOCK - 100 })
})
