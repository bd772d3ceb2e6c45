import { assert } from '../../lib/assert.ts'

/** The memory of a ring. A host keeps it in a place that outlives the process. */
export type RingMemory = {
  /**
   * Bytes of the history, and of a guard before it and one behind it that move with it. Each guard is as large as one
   * read may be.
   */
  readonly length: number
  /** Returns some of the bytes, to be read and written in place. */
  piece(at: number, length: number): Uint8Array
  /** Offset of the next byte to be written. Setting it makes bytes part of the output. */
  end: number
  /** Offset of the first byte that was ever written to this memory; absent: 0. */
  first?: number
}

/** Fills the guard. No byte of UTF-8 text has this value (RFC 3629, section 1). */
const UNWRITTEN = 0xff

/**
 * Keeps the newest bytes of an endless output. Each byte has an offset, counted from the first byte ever written. So a
 * reader that knows how far it has read can ask for what came since.
 *
 * A writer reads straight into `free()` and then commits. A process that is killed between the two has taken bytes from
 * their source that no offset counts. The next process finds them, because free bytes are recognized by their value.
 * Only bytes of that same value at the very end of such a read are lost.
 *
 * The guard behind the end is the free space. The guard before the start becomes the next free space. So no byte of the
 * history is touched before the end has moved.
 */
export class Ring {
  readonly #memory: RingMemory
  readonly #guard: number

  private constructor(memory: RingMemory, guard: number) {
    assert(
      Number.isSafeInteger(guard) && guard > 0 && 2 * guard < memory.length,
      `two guards of ${guard} bytes do not fit in a ring of ${memory.length}`,
    )
    this.#memory = memory
    this.#guard = guard
  }

  /**
   * Begins an output, at an offset other than 0 if what came before is kept nowhere. `guard` is how many bytes one read
   * may bring.
   */
  static begin(memory: RingMemory, guard: number, first = 0): Ring {
    const ring = new Ring(memory, guard)
    ring.#fill(first, guard)
    memory.first = first
    memory.end = first
    return ring
  }

  /** Continues the output of a process that has ended at any point. */
  static resume(memory: RingMemory, guard: number): Ring {
    const ring = new Ring(memory, guard)
    const free = ring.free()
    let { length } = free
    while (length > 0 && free[length - 1] === UNWRITTEN) length -= 1
    ring.commit(length)
    return ring
  }

  /** Returns how many bytes are kept. */
  get capacity(): number {
    return this.#memory.length - 2 * this.#guard
  }

  /** Returns the offset of the oldest kept byte. */
  get start(): number {
    return Math.max(this.#memory.first ?? 0, this.end - this.capacity)
  }

  /** Returns the offset of the next byte to be written. */
  get end(): number {
    return this.#memory.end
  }

  /** Returns the space for the next bytes that lies in one piece; at least one byte. */
  free(): Uint8Array {
    return this.#memory.piece(this.#at(this.end), this.#freeLength())
  }

  /** Makes the first `length` bytes of `free()` part of the output. */
  commit(length: number): void {
    const free = this.#freeLength()
    assert(length >= 0 && length <= free, `${length} bytes are committed where ${free} were free`)
    // The order matters: after a crash between the two, the same bytes are found, and no older ones behind them.
    this.#fill(this.end + this.#guard, length)
    this.#memory.end = this.end + length
  }

  /** Copies bytes in, for writers that have them already. */
  write(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      const free = this.free()
      const piece = chunk.subarray(at, at + free.length)
      free.set(piece)
      this.commit(piece.length)
      at += piece.length
    }
  }

  /**
   * Returns a copy of the bytes from `offset` on, or from the oldest kept byte if earlier ones are lost; `start` says
   * from which. The next call continues at `start + bytes.length`.
   */
  since(offset: number): { readonly start: number; readonly bytes: Uint8Array<ArrayBuffer> } {
    assert(
      offset >= 0 && offset <= this.end,
      `offset ${offset} was never written: the ring ends at ${this.end}`,
    )
    const start = Math.max(offset, this.start)
    const copy = new Uint8Array(this.end - start)
    let copied = 0
    for (const piece of this.#pieces(start, copy.length)) {
      copy.set(piece, copied)
      copied += piece.length
    }
    return { start, bytes: copy }
  }

  #fill(offset: number, length: number): void {
    for (const piece of this.#pieces(offset, length)) piece.fill(UNWRITTEN)
  }

  /** Returns the bytes from an offset on, in two pieces if they wrap around. */
  #pieces(offset: number, length: number): Uint8Array[] {
    const at = this.#at(offset)
    const untilWrap = Math.min(length, this.#memory.length - at)
    const pieces = untilWrap > 0 ? [this.#memory.piece(at, untilWrap)] : []
    return length > untilWrap ? [...pieces, this.#memory.piece(0, length - untilWrap)] : pieces
  }

  #freeLength(): number {
    return Math.min(this.#guard, this.#memory.length - this.#at(this.end))
  }

  /** Returns the place of an offset in the memory. */
  #at(offset: number): number {
    return offset % this.#memory.length
  }
}

/** Returns memory that ends with the process. */
export const plainMemory = (bytes: Uint8Array): RingMemory => ({
  length: bytes.length,
  piece: (at, length) => bytes.subarray(at, at + length),
  end: 0,
})

/** A ring that ends with the process. */
export const ringInMemory = (capacity: number, guard = 1, first = 0): Ring =>
  Ring.begin(plainMemory(new Uint8Array(capacity + 2 * guard)), guard, first)

/** The position at which a viewer had stopped: a cursor, and its session, if the viewer still knows it. */
export type StoppedAt = { readonly cursor: number; readonly session?: string }

/** The position at which a viewer continues, and the number of bytes it has lost. */
type Replay = { readonly from: number; readonly lostBytes: number }

/**
 * Decides where a viewer begins in a session whose kept output goes from `start` to `end`. A cursor of another session,
 * or one that this session has not reached, says nothing about this session. Then everything kept is replayed, and
 * nothing counts as lost.
 */
export function planReplay(
  session: { readonly id: string; readonly start: number; readonly end: number },
  stopped: StoppedAt | undefined,
): Replay {
  const { id, start, end } = session
  const foreign =
    stopped === undefined || stopped.cursor > end || (stopped.session !== undefined && stopped.session !== id)
  if (foreign) return { from: start, lostBytes: 0 }
  const from = Math.max(stopped.cursor, start)
  return { from, lostBytes: from - stopped.cursor }
}
