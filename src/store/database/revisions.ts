import { limits } from '../../config/limits.ts'
import { assert } from '../../lib/assert.ts'

export type RevisionStorage = {
  /** Returns the upper end of numbers that may have been given out; 0 in a new store. */
  readonly reserved: () => number
  /** Writes the reservation by itself, outside of any transaction; otherwise a rollback would undo it. */
  readonly reserve: (upTo: number) => void
}

/**
 * Returns where numbers begin at a time: microseconds since the epoch, which no store gives out as fast.
 * 2^53 is in the year 2255.
 */
export const firstNumber = (nowMs: number): number => Math.round(nowMs * 1000)

/**
 * Numbers for `revision`, each given out once in the life of a store. A number never comes back: not for a VM that
 * takes the id of a deleted one, nor after a rollback, a restart, or a power failure that lost unflushed progress. So
 * an ETag never has two meanings. Numbers are reserved in blocks. The next block is reserved when half of the last one
 * is used, long before it is needed.
 */
export class Revisions {
  readonly #storage: RevisionStorage
  readonly #block: number
  #last: number
  #reserved: number

  /**
   * Writes nothing, so that a store on a full disk can be read.
   *
   * @param block how many numbers are reserved at once; twice what a transaction uses at most
   */
  constructor(storage: RevisionStorage, block: number = limits.revisionsReserved) {
    this.#storage = storage
    this.#block = block
    this.#last = storage.reserved()
    this.#reserved = this.#last
  }

  /** Returns the newest number that was given out, or may have been. */
  get last(): number {
    return this.#last
  }

  /** Returns whether there is a number to give out. */
  get isAvailable(): boolean {
    return this.#last < this.#reserved
  }

  /**
   * Ensures that there are numbers for everything one transaction writes. Called before each transaction, and before
   * each lone write.
   */
  prepare(): void {
    if (this.#reserved - this.#last >= this.#block / 2) return
    const upTo = this.#reserved + this.#block
    this.#storage.reserve(upTo)
    this.#reserved = upTo
  }

  next(): number {
    assert(this.isAvailable, 'no revision is reserved')
    this.#last += 1
    return this.#last
  }
}
