import { assert } from '../../lib/assert.ts'

/** Large enough that few blocks are needed, small enough that a short wait costs little. */
const BLOCK_BYTES = 4096

/** Bytes that wait in order. It keeps copies in blocks, so many small pieces cost no more than one large one. */
export class ByteQueue {
  readonly #blocks: Uint8Array[] = []
  /** How much of the first block is dropped, and how much of the last one is used. */
  #gone = 0
  #used = 0

  get length(): number {
    const blocks = this.#blocks.length
    return blocks === 0 ? 0 : (blocks - 1) * BLOCK_BYTES - this.#gone + this.#used
  }

  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) {
      if (this.#blocks.length === 0 || this.#used === BLOCK_BYTES) {
        this.#blocks.push(new Uint8Array(BLOCK_BYTES))
        this.#used = 0
      }
      const piece = bytes.subarray(at, at + BLOCK_BYTES - this.#used)
      this.#blocks.at(-1)?.set(piece, this.#used)
      this.#used += piece.length
      at += piece.length
    }
  }

  /** Returns the oldest bytes that lie in one piece; empty if nothing waits. Valid until the next call. */
  head(): Uint8Array {
    const [first] = this.#blocks
    if (first === undefined) return new Uint8Array(0)
    return first.subarray(this.#gone, this.#blocks.length === 1 ? this.#used : BLOCK_BYTES)
  }

  /** Drops the oldest `length` bytes of those in `head()`. */
  drop(length: number): void {
    const head = this.head().length
    assert(length >= 0 && length <= head, `${length} bytes are dropped where ${head} lie in one piece`)
    this.#gone += length
    if (length < head || length === 0) return
    this.#blocks.shift()
    this.#gone = 0
  }

  /** Removes all bytes, and returns them in order. */
  takeAll(): Uint8Array {
    const pieces: Uint8Array[] = []
    for (let head = this.head(); head.length > 0; head = this.head()) {
      pieces.push(head.slice())
      this.drop(head.length)
    }
    return Buffer.concat(pieces)
  }

  clear(): void {
    this.#blocks.length = 0
    this.#gone = 0
  }
}
