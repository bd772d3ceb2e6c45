import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { InvariantError } from '../../lib/assert.ts'
import { plainMemory, Ring, ringInMemory, planReplay } from './ring.ts'
import type { RingMemory } from './ring.ts'

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
const bytes = (value: string): Uint8Array => new TextEncoder().encode(value)

test('an empty ring has no output', () => {
  const ring = ringInMemory(8)
  assert.deepEqual(ring.since(0), { start: 0, bytes: new Uint8Array(0) })
  assert.equal(ring.end, 0)
})

test('a reader gets what came since its offset', () => {
  const ring = ringInMemory(8)
  ring.write(bytes('abc'))
  ring.write(bytes('de'))
  assert.equal(text(ring.since(0).bytes), 'abcde')
  assert.equal(text(ring.since(3).bytes), 'de')
  assert.equal(text(ring.since(5).bytes), '')
})

test('an output that began elsewhere has nothing before its first byte here', () => {
  const ring = ringInMemory(8, 1, 1000)
  assert.deepEqual([ring.start, ring.end], [1000, 1000])
  ring.write(Buffer.from('abc'))
  assert.deepEqual([ring.start, ring.end], [1000, 1003])
  assert.equal(Buffer.from(ring.since(0).bytes).toString(), 'abc')
  ring.write(Buffer.from('defghij'))
  assert.deepEqual([ring.start, ring.end], [1002, 1010])
  assert.equal(Buffer.from(ring.since(0).bytes).toString(), 'cdefghij')
})

test('a full ring forgets the oldest bytes and says where it starts', () => {
  const ring = ringInMemory(4)
  ring.write(bytes('abcdef'))
  ring.write(bytes('g'))
  const { start, bytes: kept } = ring.since(0)
  assert.equal(start, 3)
  assert.equal(text(kept), 'defg')
})

test('bytes that a reader got do not change afterwards', () => {
  const ring = ringInMemory(4)
  ring.write(bytes('abcd'))
  const { bytes: given } = ring.since(0)
  ring.write(bytes('efgh'))
  assert.equal(text(given), 'abcd')
})

test('an offset from the future is a bug of the reader', () => {
  assert.throws(() => ringInMemory(4).since(1), InvariantError)
})

test('more than was free cannot be committed', () => {
  const ring = ringInMemory(4, 2)
  assert.throws(() => ring.commit(3), InvariantError)
  assert.throws(() => ring.commit(-1), InvariantError)
})

test('memory that has no room for a history is refused', () => {
  const memory = (length: number): RingMemory => plainMemory(new Uint8Array(length))
  assert.throws(() => Ring.begin(memory(8), 4), InvariantError)
  assert.throws(() => Ring.begin(memory(8), 0), InvariantError)
  assert.equal(Ring.begin(memory(9), 4).capacity, 1)
})

test('a ring of any size keeps exactly the newest bytes, whatever the writes', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 30 }),
      fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 10 }),
      fc.nat(),
      (capacity, guard, writes, seed) => {
        const ring = ringInMemory(capacity, guard)
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

class Killed extends Error {}

/** Memory that outlives a process; the process is killed at the n-th store, of one byte or of the end. */
class MortalMemory {
  readonly kept: RingMemory
  #storesLeft = Infinity

  constructor(length: number) {
    // Content that another output has left there.
    this.kept = plainMemory(new Uint8Array(length).fill(0x61))
  }

  killAfter(stores: number): void {
    this.#storesLeft = stores
  }

  /** The memory as the process sees it. */
  get memory(): RingMemory {
    const { kept } = this
    const store = (): void => {
      if (this.#storesLeft-- <= 0) throw new Killed()
    }
    const fill = (piece: Uint8Array, value: number): void => {
      for (const at of piece.keys()) {
        store()
        piece[at] = value
      }
    }
    const watched = (piece: Uint8Array): Uint8Array =>
      new Proxy(piece, {
        get: (target, name) => {
          if (name === 'fill') return (value: number) => fill(target, value)
          const member: unknown = Reflect.get(target, name, target)
          return typeof member === 'function' ? member.bind(target) : member
        },
      })
    return {
      length: kept.length,
      piece: (at, length) => watched(kept.piece(at, length)),
      get end() {
        return kept.end
      },
      set end(value) {
        store()
        kept.end = value
      },
    }
  }
}

/** Imitates a pty: bytes are gone once they are read. */
class Source {
  readonly all: Uint8Array
  read = 0

  constructor(all: Uint8Array) {
    this.all = all
  }

  /** Reads at most `most` bytes like read(2), as many as fit. */
  readInto(free: Uint8Array, most = Infinity): number {
    const taken = this.all.subarray(this.read, this.read + Math.min(free.length, most))
    free.set(taken)
    this.read += taken.length
    return taken.length
  }
}

/** Runs one process: it continues reading in pieces, and dies when it must. */
function live(memory: RingMemory, guard: number, source: Source, pieces: readonly number[]): void {
  try {
    const ring = Ring.resume(memory, guard)
    for (const piece of pieces) ring.commit(source.readInto(ring.free(), piece))
  } catch (error) {
    if (!(error instanceof Killed)) throw error
  }
}

const plainByte = fc.integer({ min: 0, max: 0xfe })
const output = fc
  .array(plainByte, { minLength: 200, maxLength: 200 })
  .map((values) => Uint8Array.from(values))
const lives = fc.array(
  fc.record({
    pieces: fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 6 }),
    stores: fc.nat({ max: 60 }),
  }),
  { minLength: 1, maxLength: 6 },
)

test('no byte is lost, doubled or changed, however often and wherever the process is killed', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 9 }),
      output,
      lives,
      (capacity, guard, all, killed) => {
        const mortal = new MortalMemory(capacity + 2 * guard)
        const source = new Source(all)
        Ring.begin(mortal.kept, guard)
        for (const { pieces, stores } of killed) {
          mortal.killAfter(stores)
          live(mortal.memory, guard, source, pieces)
          const ring = Ring.resume(mortal.kept, guard)
          assert.equal(ring.end, source.read)
          const { start, bytes: kept } = ring.since(0)
          assert.deepEqual(kept, all.subarray(start, ring.end))
          assert.equal(kept.length, Math.min(capacity, ring.end))
        }
      },
    ),
    { numRuns: 500 },
  )
})

test('every byte that was read is there after a kill at each single store of a commit', () => {
  for (const [capacity, guard] of [
    [5, 3],
    [3, 5],
    [1, 1],
    [16, 4],
  ] as const) {
    const all = bytes('the quick brown fox jumps over the lazy dog')
    for (let begun = 0; begun < 20; begun++) {
      for (let stores = 0; stores <= guard; stores++) {
        const mortal = new MortalMemory(capacity + 2 * guard)
        Ring.begin(mortal.kept, guard).write(all.subarray(0, begun))
        const ring = Ring.resume(mortal.memory, guard)
        const length = new Source(all.subarray(begun)).readInto(ring.free())
        mortal.killAfter(stores)
        if (stores <= length) assert.throws(() => ring.commit(length), Killed)
        const next = Ring.resume(mortal.kept, guard)
        assert.equal(next.end, begun + length)
        const { start, bytes: kept } = next.since(0)
        assert.equal(text(kept), text(all.subarray(start, begun + length)))
      }
    }
  }
})

test('of a read that a kill cut off, only bytes that are free in value and last are lost', () => {
  const mortal = new MortalMemory(20)
  const ring = Ring.begin(mortal.kept, 6)
  ring.write(bytes('ab'))
  ring.free().set([0xff, 0x63, 0xff, 0xff])
  const next = Ring.resume(mortal.kept, 6)
  assert.deepEqual([...next.since(0).bytes], [0x61, 0x62, 0xff, 0x63])
})

const session = { id: 'aaaaaaaaaaaaaaaa', start: 100, end: 200 }
const other = 'bbbbbbbbbbbbbbbb'

test('a new viewer gets all that is kept', () => {
  assert.deepEqual(planReplay(session, undefined), { from: 100, lostBytes: 0 })
})

test('a viewer that comes back goes on where it had stopped', () => {
  assert.deepEqual(planReplay(session, { cursor: 150, session: session.id }), { from: 150, lostBytes: 0 })
  assert.deepEqual(planReplay(session, { cursor: 200 }), { from: 200, lostBytes: 0 })
})

test('output that is no longer kept is lost', () => {
  assert.deepEqual(planReplay(session, { cursor: 30, session: session.id }), { from: 100, lostBytes: 70 })
})

test('a cursor of another session, or one not reached yet, says nothing of this one', () => {
  assert.deepEqual(planReplay(session, { cursor: 30, session: other }), { from: 100, lostBytes: 0 })
  assert.deepEqual(planReplay(session, { cursor: 201, session: session.id }), { from: 100, lostBytes: 0 })
})
