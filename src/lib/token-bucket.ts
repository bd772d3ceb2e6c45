/**
 * Limits how much may pass in a time: `perSecond` on average, and `burst` at once. The caller passes the time in
 * milliseconds, from a clock that is never set. The bucket starts full.
 */
export class TokenBucket {
  readonly #perMs: number
  readonly #burst: number
  #tokens: number
  #atMs: number

  constructor(options: { readonly perSecond: number; readonly burst: number; readonly nowMs: number }) {
    this.#perMs = options.perSecond / 1000
    this.#burst = options.burst
    this.#tokens = options.burst
    this.#atMs = options.nowMs
  }

  /** Returns whether one more may pass; a refusal costs nothing. */
  take(nowMs: number): boolean {
    this.#earn(nowMs)
    if (this.#tokens < 1) return false
    this.#tokens -= 1
    return true
  }

  /**
   * Counts what has passed, even into debt; a negative amount is given back, up to the burst. Returns for how many
   * whole milliseconds nothing more should pass.
   */
  spend(nowMs: number, amount: number): number {
    this.#earn(nowMs)
    this.#tokens = Math.min(this.#burst, this.#tokens - amount)
    return this.#tokens >= 0 ? 0 : Math.ceil(-this.#tokens / this.#perMs)
  }

  /** Returns whether everything that has passed was earned back, as in a new bucket. */
  isFull(nowMs: number): boolean {
    this.#earn(nowMs)
    return this.#tokens === this.#burst
  }

  #earn(nowMs: number): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + Math.max(0, nowMs - this.#atMs) * this.#perMs)
    this.#atMs = nowMs
  }
}
