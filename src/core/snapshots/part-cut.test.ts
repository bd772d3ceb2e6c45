import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PartCut } from './part-cut.ts'

test('a part is whole with the frame that reaches its end, and has the image bytes of frames that end in it', () => {
  const cut = new PartCut(10)
  assert.deepEqual(cut.add(6, 100), [])
  assert.equal(cut.partEndBytes, 10)
  assert.deepEqual(cut.add(6, 100), [{ number: 1, offsetBytes: 0, bytes: 10, imageBytes: 100 }])
  assert.equal(cut.partEndBytes, 20)
  // The second frame ends in part 2, and so does the third, with its last byte.
  assert.deepEqual(cut.add(8, 50), [{ number: 2, offsetBytes: 10, bytes: 10, imageBytes: 150 }])
  assert.deepEqual(cut.point, { storedBytes: 20, imageBytes: 250 })
})

test('a frame may make several parts whole, of which all but the last have no image bytes of it', () => {
  const cut = new PartCut(10)
  cut.add(5, 7)
  assert.deepEqual(
    cut.add(30, 100).map(({ number, imageBytes }) => [number, imageBytes]),
    [
      [1, 7],
      [2, 0],
      [3, 0],
    ],
  )
  assert.deepEqual(cut.end(), { number: 4, offsetBytes: 30, bytes: 5, imageBytes: 100 })
})

test('the last part is what is left, and there is none if the part before it ends with all', () => {
  const cut = new PartCut(10)
  cut.add(10, 100)
  assert.equal(cut.end(), undefined)
  cut.add(1, 0)
  assert.deepEqual(cut.end(), { number: 2, offsetBytes: 10, bytes: 1, imageBytes: 0 })
})
