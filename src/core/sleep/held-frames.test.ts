import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HeldFrames } from './held-frames.ts'
import type { HeldFrame } from './held-frames.ts'

const frame = (ifindex: number, ...bytes: readonly [number, ...number[]]): HeldFrame => ({
  ifindex,
  atNs: BigInt(bytes[0]),
  gsoSize: 0,
  counts: true,
  frame: Uint8Array.from(bytes),
})

test('frames of a device wait in the order they came, whatever arrives for other devices', () => {
  const frames = new HeldFrames()
  for (const [at, held] of [frame(1, 10), frame(2, 20), frame(1, 11)].entries()) frames.add(held, at + 1)
  assert.deepEqual([frames.count(1), frames.count(2), frames.bytes(1)], [2, 1, 2])
  assert.equal(frames.first(1)?.frame[0], 10)
  assert.deepEqual(
    frames.waiting(1).map(({ frame: [byte] }) => byte),
    [10, 11],
  )
  frames.removeFirst(1)
  assert.equal(frames.first(1)?.frame[0], 11)
  frames.removeFirst(1)
  assert.deepEqual([frames.first(1), frames.devices()], [undefined, [2]])
})

test('the ring is released up to the first frame that waits', () => {
  const frames = new HeldFrames()
  frames.add(frame(1, 10), 100)
  frames.add(frame(2, 20), 200)
  frames.skip(300)
  assert.equal(frames.release(), undefined)
  frames.removeFirst(2)
  assert.equal(frames.release(), undefined, 'the first one waits')
  frames.removeFirst(1)
  assert.equal(frames.release(), 300)
  assert.equal(frames.release(), undefined, 'nothing more since')
})

test('copied frames keep waiting after the whole ring is released', () => {
  const frames = new HeldFrames()
  const inRing = frame(1, 10)
  frames.add(inRing, 100)
  frames.add(frame(1, 11), 200)
  frames.removeFirst(1)
  frames.copyOut()
  assert.equal(frames.release(), 200)
  frames.add(frame(1, 12), 300)
  assert.deepEqual(
    [frames.count(1), frames.first(1)?.frame[0], frames.release()],
    [2, 11, undefined],
    'the new one is in the ring',
  )
})

test('a copy does not change with the ring', () => {
  const frames = new HeldFrames()
  const inRing = frame(1, 10)
  frames.add(inRing, 100)
  frames.copyOut()
  inRing.frame[0] = 99
  assert.equal(frames.first(1)?.frame[0], 10)
})

test('copies are bounded over all devices, and the device with the most gives up its frames', () => {
  const frames = new HeldFrames()
  frames.add(frame(1, 10), 100)
  for (const end of [200, 300, 400]) frames.add(frame(2, 20, 21), end)
  assert.equal(frames.overfull(0), undefined, 'frames in the ring are no copies')
  frames.copyOut()
  frames.add(frame(2, 22, 23), 500)
  assert.equal(frames.overfull(7), undefined)
  const gaveUp: number[] = []
  for (let device = frames.overfull(2); device !== undefined; device = frames.overfull(2)) {
    gaveUp.push(device)
    frames.removeFirst(device)
  }
  assert.deepEqual(gaveUp, [2, 2, 2])
  assert.deepEqual([frames.count(1), frames.first(2)?.frame[0]], [1, 22], 'the one in the ring stays')
})

test('a frame that was delivered is not copied, and does not count against other guests', () => {
  const frames = new HeldFrames()
  frames.add(frame(1, 10), 100)
  frames.add(frame(2, 20, 21), 200)
  frames.removeFirst(2)
  frames.copyOut()
  assert.equal(frames.overfull(1), undefined, 'one byte is copied')
  assert.equal(frames.overfull(0), 1)
})
