import { assert } from '../../lib/assert.ts'

/** The memory of a ring. A host keeps it in a place that outlives the process. */
export type RingMemory = {
  /**
   * The history, with a guard before it and one behind it that move with it. Each guard is as large as one read may be.
   */
  readonly bytes: Uint8Array
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
      Number.isSafeInteger(guard) && guard > 0 && 2 * guard < memory.bytes.length,
      `two guards of ${guard} bytes do not fit in a ring of ${memory.bytes.length}`,
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
    return this.#memory.bytes.length - 2 * this.#guard
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
    const { bytes } = this.#memory
    const at = this.end % bytes.length
    return bytes.subarray(at, Math.min(at + this.#guard, bytes.length))
  }

  /** Makes the first `length` bytes of `free()` part of the output. */
  commit(length: number): void {
    const free = this.free().length
    assert(length >= 0 && length <= free, `${length} bytes are committed where ${free} were free`)
    // The order matters: after a crash between the two, the same bytes are found, and no older ones behind them.
    this.#fill(this.end + this.#guard, length)
    this.#memory.end = this.end + length
  }

  /** Copies bytes in, for writers that have them already. */
  write(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      const piece = chunk.subarray(at, at + this.free().length)
      this.free().set(piece)
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
    const { bytes } = this.#memory
    const at = start % bytes.length
    const untilWrap = bytes.subarray(at, at + copy.length)
    copy.set(untilWrap)
    copy.set(bytes.subarray(0, copy.length - untilWrap.length), untilWrap.length)
    return { start, bytes: copy }
  }

  #fill(offset: number, length: number): void {
    const { bytes } = this.#memory
    const at = offset % bytes.length
    bytes.fill(UNWRITTEN, at, at + length)
    bytes.fill(UNWRITTEN, 0, Math.max(0, at + length - bytes.length))
  }
}

/** A ring that ends with the process. */
export const ringInMemory = (capacity: number, guard = 1, first = 0): Ring =>
  Ring.begin({ bytes: new Uint8Array(capacity + 2 * guard), end: 0 }, guard, first)

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
