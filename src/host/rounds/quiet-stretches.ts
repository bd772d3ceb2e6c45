import { limits } from '../../config/limits.ts'

/**
 * Stretches of a round without a change whose maps took many calls to read. A reader who comes later passes over them: a
 * destination takes a stream in which nothing is found for long for one that is cut.
 */
export class QuietStretches {
  readonly #known: { readonly from: number; to: number }[] = []

  /** Takes a stretch in which nothing has changed. */
  note(from: number, to: number): void {
    const index = this.#known.findIndex((one) => one.to >= from)
    const near = this.#known[index]
    if (near !== undefined && near.from <= from) near.to = Math.max(near.to, to)
    else if (this.#known.length < limits.quietStretchesMax)
      this.#known.splice(near === undefined ? this.#known.length : index, 0, { from, to })
  }

  /** Returns where the known stretch ends that has this offset; undefined if none has it. */
  endOf(offset: number): number | undefined {
    return this.#known.find(({ from, to }) => from <= offset && offset < to)?.to
  }
}
