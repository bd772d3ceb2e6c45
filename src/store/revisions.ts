import { limits } from '../config/limits.ts'

export type RevisionStorage = {
  /** Up to where numbers may have been given out; 0 in a new store. */
  readonly reserved: () => number
  readonly reserve: (upTo: number) => void
}

/**
 * Numbers for `revision`, each given out once in the life of a store: not again to a VM that takes the id of a deleted
 * one, nor after a power failure that took unflushed progress with it. So an ETag never means two things. They are
 * reserved in blocks, the next one when half of the last is used, long before its numbers are due.
 */
export class Revisions {
  readonly #storage: RevisionStorage
  #last: number
  #reserved: number

  constructor(storage: RevisionStorage) {
    this.#storage = storage
    this.#last = storage.reserved()
    this.#reserved = this.#last
    this.#reserve()
  }

  next(): number {
    this.#last += 1
    if (this.#reserved - this.#last < limits.revisionsReserved / 2) this.#reserve()
    return this.#last
  }

  #reserve(): void {
    this.#reserved += limits.revisionsReserved
    this.#storage.reserve(this.#reserved)
  }
}
