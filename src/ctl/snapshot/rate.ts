import { limits } from '../../config/limits.ts'

/** How fast something grows, over the last while. */
export class Rate {
  #samples: { readonly ms: number; readonly amount: number }[] = []

  /** Amount a second, after the amount was this at a time; undefined while it has not grown. */
  at(ms: number, amount: number): number | undefined {
    this.#samples.push({ ms, amount })
    // One that is older is kept: the span shall not be empty where news is rare.
    while ((this.#samples[1]?.ms ?? ms) < ms - limits.ctlRateMs) this.#samples.shift()
    const [first] = this.#samples
    if (first === undefined || ms <= first.ms || amount <= first.amount) return undefined
    return ((amount - first.amount) * 1000) / (ms - first.ms)
  }
}
