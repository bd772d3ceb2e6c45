import { assert } from '../../lib/assert.ts'

/**
 * The newest bytes of an endless output. Each byte has an offset, counted from the first byte ever written, so that a
 * reader who knows how far it has read can ask for what came since.
 */
export class Ring {
  readonly #capacity: number
  /** Grows with the output, up to the capacity: most consoles say little. */
  #bytes = new Uint8Array(0)
  #end = 0

  constructor(capacity: number) {
    assert(Number.isSafeInteger(capacity) && capacity > 0, `a ring holds at least one byte, not ${capacity}`)
    this.#capacity = capacity
  }

  /** Offset of the oldest byte kept. */
  get start(): number {
    return Math.max(0, this.#end - this.#capacity)
  }

  /** Offset of the next byte to be written. */
  get end(): number {
    return this.#end
  }

  write(chunk: Uint8Array): void {
    const newest = chunk.subarray(Math.max(0, chunk.length - this.#capacity))
    const at = (this.#end + chunk.length - newest.length) % this.#capacity
    const untilWrap = newest.subarray(0, this.#capacity - at)
    this.#end += chunk.length
    this.#grow(Math.min(this.#end, this.#capacity))
    this.#bytes.set(untilWrap, at)
    this.#bytes.set(newest.subarray(untilWrap.length), 0)
  }

  #grow(length: number): void {
    if (length <= this.#bytes.length) return
    const grown = new Uint8Array(Math.min(this.#capacity, Math.max(length, 2 * this.#bytes.length)))
    grown.set(this.#bytes)
    this.#bytes = grown
  }

  /**
   * A copy of the bytes from `offset` on, or from the oldest kept where those before are lost; `start` tells which.
   * The next call continues at `start + bytes.length`.
   */
  since(offset: number): { readonly start: number; readonly bytes: Uint8Array } {
    assert(
      offset >= 0 && offset <= this.#end,
      `offset ${offset} was never written: the ring ends at ${this.#end}`,
    )
    const start = Math.max(offset, this.start)
    const copy = new Uint8Array(this.#end - start)
    const at = start % this.#capacity
    const untilWrap = this.#bytes.subarray(at, at + copy.length)
    copy.set(untilWrap)
    copy.set(this.#bytes.subarray(0, copy.length - untilWrap.length), untilWrap.length)
    return { start, bytes: copy }
  }
}
