import { limits } from '../config/limits.ts'

/** Measures how fast something has grown lately. */
export class Rate {
  #samples: { readonly ms: number; readonly amount: number }[] = []

  /** Returns the amount per second, given the amount at this time; undefined while it has not grown. */
  at(ms: number, amount: number): number | undefined {
    this.#samples.push({ ms, amount })
    // Keep one older sample, so that the span is not empty when samples are rare.
    while ((this.#samples[1]?.ms ?? ms) < ms - limits.ctlRateMs) this.#samples.shift()
    const [first] = this.#samples
    if (first === undefined || ms <= first.ms || amount <= first.amount) return undefined
    return ((amount - first.amount) * 1000) / (ms - first.ms)
  }
}

const BAR_CELLS = 24

/** Returns a bar of a percentage, from 0 to 100. */
export function bar(percent: number): string {
  const full = Math.floor((BAR_CELLS * percent) / 100)
  return `[${'#'.repeat(full)}${'-'.repeat(BAR_CELLS - full)}]`
}
