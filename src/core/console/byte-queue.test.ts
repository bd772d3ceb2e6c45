import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { InvariantError } from '../../lib/assert.ts'
import { ByteQueue } from './byte-queue.ts'

test('pushed bytes come out in order, whatever the pieces on both sides', () => {
  const piece = fc.record({ push: fc.nat({ max: 9000 }), drop: fc.nat({ max: 9000 }) })
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
      const queue = new ByteQueue()
      let [pushed, dropped] = [0, 0]
      for (const { push, drop } of pieces) {
        queue.push(Uint8Array.from({ length: push }, (_, index) => (pushed + index) % 251))
        pushed += push
        const head = queue.head()
        const taken = Math.min(drop, head.length)
        for (let index = 0; index < taken; index++) assert.equal(head[index], (dropped + index) % 251)
        queue.drop(taken)
        dropped += taken
        assert.equal(queue.length, pushed - dropped)
        assert.equal(queue.head().length > 0, queue.length > 0)
      }
    }),
  )
})

test('the owner may change pushed bytes afterwards', () => {
  const queue = new ByteQueue()
  const bytes = Uint8Array.of(1, 2)
  queue.push(bytes)
  bytes.fill(0)
  assert.deepEqual([...queue.head()], [1, 2])
})

test('a cleared queue is empty, and can be used again', () => {
  const queue = new ByteQueue()
  queue.push(new Uint8Array(10_000))
  queue.drop(100)
  queue.clear()
  assert.equal(queue.length, 0)
  queue.push(Uint8Array.of(7))
  assert.deepEqual([...queue.head()], [7])
})

test('dropping more than lies there is a bug', () => {
  assert.throws(() => new ByteQueue().drop(1), InvariantError)
})
