/** A stretch of a disk, in bytes. In a round, `hole` means that it must read as zeros from now on. */
export type Extent = { readonly kind: 'data' | 'hole'; readonly offset: number; readonly length: number }

/** Returns two extents of one kind as one if the second begins where the first ends. */
export const joined = (first: Extent, second: Extent): Extent | undefined =>
  first.kind === second.kind && first.offset + first.length === second.offset
    ? { ...first, length: first.length + second.length }
    : undefined

/**
 * Joins neighbours, and cuts data at multiples of `dataBytesMax`; holes are not cut. The result depends on the
 * stretches alone, and not on how the given extents divide them. It is also the same from any end of a piece on.
 */
export class ExtentCutter {
  readonly #dataBytesMax: number
  #joined: Extent | undefined

  constructor(dataBytesMax: number) {
    this.#dataBytesMax = dataBytesMax
  }

  /** Takes the next extent, in ascending order; yields the pieces that no later extent changes. */
  *add(extent: Extent): Generator<Extent, void> {
    const last = this.#joined
    const whole = last && joined(last, extent)
    if (last !== undefined && whole === undefined) yield last
    this.#joined = whole ?? extent
    yield* this.#cut()
  }

  /** Yields what is left. */
  *end(): Generator<Extent, void> {
    if (this.#joined !== undefined) yield this.#joined
    this.#joined = undefined
  }

  *#cut(): Generator<Extent, void> {
    for (;;) {
      const { kind = 'hole', offset = 0, length = 0 } = this.#joined ?? {}
      const pieceLength = this.#dataBytesMax - (offset % this.#dataBytesMax)
      if (kind === 'hole' || length <= pieceLength) return
      yield { kind, offset, length: pieceLength }
      this.#joined = { kind, offset: offset + pieceLength, length: length - pieceLength }
    }
  }
}
