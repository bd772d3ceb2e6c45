import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomFrom } from '../../../test/sim/random.ts'
import { changedExtents, FIEMAP_EXTENT } from './changed-extents.ts'
import type { PhysicalExtent } from './changed-extents.ts'
import type { Extent } from './extents.ts'

const BLOCK = 4096
const { DELALLOC, ENCODED, DATA_INLINE, LAST, NOT_ALIGNED, SHARED, UNKNOWN, UNWRITTEN } = FIEMAP_EXTENT

/** Returns an extent of whole blocks. */
const blocks = (logical: number, physical: number, length: number, flags = 0): PhysicalExtent => ({
  logical: logical * BLOCK,
  physical: physical * BLOCK,
  length: length * BLOCK,
  flags,
})

const data = (offset: number, length: number): Extent => ({
  kind: 'data',
  offset: offset * BLOCK,
  length: length * BLOCK,
})
const hole = (offset: number, length: number): Extent => ({ ...data(offset, length), kind: 'hole' })

const changes = (before: readonly PhysicalExtent[], now: readonly PhysicalExtent[], to = 100): Extent[] =>
  changedExtents({ before, now, from: 0, to: to * BLOCK })

test('data in the same place has not changed, however the extents divide it', () => {
  const whole = [blocks(0, 500, 10), blocks(20, 700, 10, SHARED | LAST)]
  assert.deepEqual(changes(whole, whole), [])
  assert.deepEqual(changes(whole, [blocks(0, 500, 3), blocks(3, 503, 7), blocks(20, 700, 10)]), [])
})

test('a block that was written since lies elsewhere, and only that block counts', () => {
  const now = [blocks(0, 500, 4), blocks(4, 900, 1), blocks(5, 505, 5)]
  assert.deepEqual(changes([blocks(0, 500, 10)], now), [data(4, 1)])
})

test('an extent that is missing now is a hole, and so is one that was allocated and not written', () => {
  const before = [blocks(0, 500, 10)]
  assert.deepEqual(changes(before, []), [hole(0, 10)])
  assert.deepEqual(changes(before, [blocks(0, 500, 2), blocks(2, 502, 8, UNWRITTEN)]), [hole(2, 8)])
  assert.deepEqual(changes([blocks(0, 500, 10, UNWRITTEN)], [blocks(0, 500, 10)]), [data(0, 10)])
  assert.deepEqual(changes([], [blocks(0, 500, 10, UNWRITTEN)]), [])
})

test('an extent without a place that can be compared has changed', () => {
  for (const flag of [DELALLOC, UNKNOWN, NOT_ALIGNED, DATA_INLINE, ENCODED]) {
    const map = [blocks(0, 500, 10, flag)]
    assert.deepEqual(changes(map, map), [data(0, 10)])
    assert.deepEqual(changes(map, [blocks(0, 500, 10)]), [data(0, 10)])
    assert.deepEqual(changes(map, [blocks(0, 500, 10, flag | UNWRITTEN)]), [data(0, 10)])
    assert.deepEqual(changes(map, []), [hole(0, 10)])
  }
})

test('only what lies in the window counts', () => {
  const now = [blocks(0, 500, 10), blocks(20, 700, 10)]
  const window = { from: 5 * BLOCK, to: 22 * BLOCK }
  assert.deepEqual(changedExtents({ before: [], now, ...window }), [data(5, 5), data(20, 2)])
  assert.deepEqual(changedExtents({ before: now, now: [], ...window }), [hole(5, 5), hole(20, 2)])
})

/** A clone as a list of blocks: the place of each; undefined: nothing; null: allocated, and not written. */
type Blocks = readonly (number | undefined | null)[]

/** Returns extents that cover the blocks, divided at random. */
function mapOf(all: Blocks, random: () => number): PhysicalExtent[] {
  const extents: PhysicalExtent[] = []
  for (const [index, place] of all.entries()) {
    if (place === undefined) continue
    const last = extents.at(-1)
    const flags = place === null ? UNWRITTEN : 0
    const physical = place ?? 10_000 + index
    const isNext =
      last !== undefined &&
      last.flags === flags &&
      last.logical + last.length === index * BLOCK &&
      last.physical + last.length === physical * BLOCK
    if (isNext && random() < 0.8) extents[extents.length - 1] = { ...last, length: last.length + BLOCK }
    else extents.push(blocks(index, physical, 1, flags))
  }
  return extents
}

function changeOf(was: Blocks[number], is: Blocks[number]): Extent['kind'] | undefined {
  if (typeof is === 'number') return is === was ? undefined : 'data'
  return typeof was === 'number' ? 'hole' : undefined
}

test('random maps differ as their blocks do, one by one', () => {
  const count = 64
  for (let seed = 1; seed <= 2000; seed += 1) {
    const random = randomFrom(seed)
    const upTo = (max: number): number => Math.floor(random() * max)
    const before: Blocks[number][] = Array.from({ length: count }, () => undefined)
    const write = (to: Blocks[number][], rate: number): void => {
      for (let at = 0; at < count; at += 1 + upTo(8)) {
        if (random() >= rate) continue
        const [what, place, end] = [random(), upTo(3) * count, Math.min(count, at + 1 + upTo(12))]
        // Places repeat, so that a block meets its own place again and the place of another block.
        for (let index = at; index < end; index += 1)
          to[index] = what < 0.2 ? undefined : what < 0.3 ? null : place + index
      }
    }
    write(before, 0.8)
    const now = [...before]
    write(now, 0.4)
    const expected: (Extent['kind'] | undefined)[] = now.map((is, index) => changeOf(before[index], is))
    const seen: typeof expected = Array.from({ length: count }, () => undefined)
    // As the driver does: window by window.
    const half = upTo(count) * BLOCK
    const maps = { before: mapOf(before, random), now: mapOf(now, random) }
    const found = [
      ...changedExtents({ ...maps, from: 0, to: half }),
      ...changedExtents({ ...maps, from: half, to: count * BLOCK }),
    ]
    let end = 0
    for (const { kind, offset, length } of found) {
      assert.ok(offset >= end && length > 0, `seed ${seed}: ${offset} comes after ${end}`)
      end = offset + length
      seen.fill(kind, offset / BLOCK, end / BLOCK)
    }
    assert.deepEqual(seen, expected, `seed ${seed}`)
  }
})
