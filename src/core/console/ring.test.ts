import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { InvariantError } from '../../lib/assert.ts'
import { Ring } from './ring.ts'

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
const bytes = (value: string): Uint8Array => new TextEncoder().encode(value)

test('an empty ring has nothing to tell', () => {
  const ring = new Ring(8)
  assert.deepEqual(ring.since(0), { start: 0, bytes: new Uint8Array(0) })
  assert.equal(ring.end, 0)
})

test('a reader gets what came since its offset', () => {
  const ring = new Ring(8)
  ring.write(bytes('abc'))
  ring.write(bytes('de'))
  assert.equal(text(ring.since(0).bytes), 'abcde')
  assert.equal(text(ring.since(3).bytes), 'de')
  assert.equal(text(ring.since(5).bytes), '')
})

test('a full ring forgets the oldest bytes and says where it starts', () => {
  const ring = new Ring(4)
  ring.write(bytes('abcdef'))
  ring.write(bytes('g'))
  const { start, bytes: kept } = ring.since(0)
  assert.equal(start, 3)
  assert.equal(text(kept), 'defg')
})

test('what a reader is given does not change under its hands', () => {
  const ring = new Ring(4)
  ring.write(bytes('abcd'))
  const { bytes: given } = ring.since(0)
  ring.write(bytes('efgh'))
  assert.equal(text(given), 'abcd')
})

test('an offset from the future is a bug of the reader', () => {
  assert.throws(() => new Ring(4).since(1), InvariantError)
})

test('a ring of any size keeps exactly the newest bytes, whatever the writes', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 10 }),
      fc.nat(),
      (capacity, writes, seed) => {
        const ring = new Ring(capacity)
        let all = new Uint8Array(0)
        for (const write of writes) {
          ring.write(write)
          all = Uint8Array.of(...all, ...write)
        }
        const offset = seed % (all.length + 1)
        const start = Math.max(offset, all.length - capacity, 0)
        assert.deepEqual(ring.since(offset), { start, bytes: all.subarray(start) })
        assert.equal(ring.end, all.length)
      },
    ),
  )
})
