import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { InjectedFrames } from './injected-frames.ts'
import type { HeldFrame } from './held-frames.ts'

const NOW_NS = 10n

const frame = (ifindex: number, of: Partial<HeldFrame> = {}): HeldFrame => ({
  ifindex,
  atNs: 5n,
  gsoSize: 0,
  counts: true,
  frame: Uint8Array.of(1),
  ...of,
})

test('injected frames of a device wait in their order until they are settled or forgotten', () => {
  const frames = new InjectedFrames()
  for (const atNs of [7n, 6n]) assert.equal(frames.add(frame(1, { atNs }), NOW_NS), true)
  frames.add(frame(2), NOW_NS)
  assert.deepEqual([frames.count(1), frames.first(1)?.atNs], [2, 7n])
  frames.removeFirst(1)
  assert.deepEqual([frames.count(1), frames.first(1)?.atNs], [1, 6n])
  frames.forget(1)
  frames.removeFirst(1)
  assert.deepEqual([frames.count(1), frames.first(1), frames.count(2)], [0, undefined, 1])
})

test('a guest is wanted since the oldest injected frame that counts, although that frame is settled', () => {
  const frames = new InjectedFrames()
  frames.add(frame(1, { atNs: 3n, counts: false }), NOW_NS)
  assert.equal(frames.wantedAtNs(1), undefined)
  for (const atNs of [9n, 8n]) frames.add(frame(1, { atNs }), NOW_NS)
  while (frames.count(1) > 0) frames.removeFirst(1)
  assert.equal(frames.wantedAtNs(1), 8n)
  frames.forget(1)
  assert.equal(frames.wantedAtNs(1), undefined)
})

test('an injected frame that is too old is left out, and its guest is not wanted', () => {
  const frames = new InjectedFrames()
  const ageNs = BigInt(limits.heldFrameAgeMs) * 1_000_000n
  assert.equal(frames.add(frame(1), 5n + ageNs), true)
  assert.equal(frames.add(frame(2), 6n + ageNs), false)
  assert.deepEqual([frames.wantedAtNs(1), frames.wantedAtNs(2), frames.count(2)], [5n, undefined, 0])
})

test('injected frames are bounded in number and bytes, and settled ones make room', () => {
  const frames = new InjectedFrames()
  for (let at = 0; at < limits.heldFramesMax; at++) assert.equal(frames.add(frame(1), NOW_NS), true)
  assert.equal(frames.add(frame(1), NOW_NS), false)
  assert.equal(frames.add(frame(2), NOW_NS), true, 'another device has room of its own')
  const large = frame(3, { frame: new Uint8Array(limits.heldBytesMax / 2) })
  assert.deepEqual(
    [frames.add(large, NOW_NS), frames.add(large, NOW_NS), frames.add(frame(3), NOW_NS)],
    [true, true, false],
  )
  frames.removeFirst(3)
  assert.equal(frames.add(large, NOW_NS), true)
})
