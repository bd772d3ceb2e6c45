import { limits } from '../config/limits.ts'
import { assert } from '../lib/assert.ts'

export type RevisionStorage = {
  /** Up to where numbers may have been given out; 0 in a new store. */
  readonly reserved: () => number
  /** A write of its own, outside of any transaction: else a rollback would take the reservation back. */
  readonly reserve: (upTo: number) => void
}

/**
 * Numbers for `revision`, each given out once in the life of a store: not again to a VM that takes the id of a deleted
 * one, nor after a rollback, a restart, or a power failure that took unflushed progress with it. So an ETag never means
 * two things. They are reserved in blocks, the next one when half of the last is used, long before its numbers are due.
 */
export class Revisions {
  readonly #storage: RevisionStorage
  readonly #block: number
  #last: number
  #reserved: number

  /**
   * Writes nothing, so that a store on a full disk can be read.
   *
   * @param block how many are reserved at once; twice what a transaction uses at most
   */
  constructor(storage: RevisionStorage, block: number = limits.revisionsReserved) {
    this.#storage = storage
    this.#block = block
    this.#last = storage.reserved()
    this.#reserved = this.#last
  }

  /** Whether there is a number to give out. */
  get isAvailable(): boolean {
    return this.#last < this.#reserved
  }

  /** Makes sure that there are numbers for all that one transaction writes. Called before each, and before each lone write. */
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
