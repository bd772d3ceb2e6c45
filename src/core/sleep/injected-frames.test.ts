import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { InjectedFrames } from './injected-frames.ts'
import type { HeldFrame } from './held-frames.ts'

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
  for (const atNs of [7n, 6n]) assert.equal(frames.add(frame(1, { atNs })), true)
  frames.add(frame(2))
  assert.deepEqual([frames.count(1), frames.first(1)?.atNs], [2, 7n])
  frames.settleFirst(1)
  assert.deepEqual([frames.count(1), frames.first(1)?.atNs], [1, 6n])
  frames.forget(1)
  frames.settleFirst(1)
  assert.deepEqual([frames.count(1), frames.first(1), frames.count(2)], [0, undefined, 1])
})

test('a guest is wanted since the oldest injected frame that counts, although that frame is settled', () => {
  const frames = new InjectedFrames()
  frames.add(frame(1, { atNs: 3n, counts: false }))
  assert.equal(frames.wantedAtNs(1), undefined)
  for (const atNs of [9n, 8n]) frames.add(frame(1, { atNs }))
  while (frames.count(1) > 0) frames.settleFirst(1)
  assert.equal(frames.wantedAtNs(1), 8n)
  frames.forget(1)
  assert.equal(frames.wantedAtNs(1), undefined)
})

test('injected frames are bounded in number and bytes, and settled ones make room', () => {
  const frames = new InjectedFrames()
  for (let at = 0; at < limits.heldFramesMax; at++) assert.equal(frames.add(frame(1)), true)
  assert.equal(frames.add(frame(1)), false)
  assert.equal(frames.add(frame(2)), true, 'another device has room of its own')
  const large = frame(3, { frame: new Uint8Array(limits.heldBytesMax / 2) })
  assert.deepEqual([frames.add(large), frames.add(large), frames.add(frame(3))], [true, true, false])
  frames.settleFirst(3)
  assert.equal(frames.add(large), true)
})
