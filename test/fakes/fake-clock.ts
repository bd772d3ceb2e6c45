import type { Clock } from '../../src/ports/clock.ts'

/** Time that moves only when a test moves it; timers fire in the order of their times. */
export class FakeClock implements Clock {
  #nowMs: number
  /** Difference between the time of day and the monotonic time. */
  #setByMs = 0
  #timers: { readonly atMs: number; readonly callback: () => void }[] = []
  readonly #random: () => number

  constructor(options: { nowMs?: number; random?: () => number } = {}) {
    this.#nowMs = options.nowMs ?? Date.parse('2030-01-01T00:00:00Z')
    this.#random = options.random ?? (() => 0)
  }

  now(): number {
    return this.#nowMs + this.#setByMs
  }

  monotonicMs(): number {
    return this.#nowMs
  }

  random(): number {
    return this.#random()
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { atMs: this.#nowMs + ms, callback }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  /** Milliseconds until the next timer; undefined when there is none. */
  nextMs(): number | undefined {
    const times = this.#timers.map(({ atMs }) => atMs)
    return times.length === 0 ? undefined : Math.max(0, Math.min(...times) - this.#nowMs)
  }

  /** Sets the time of day, forward or back; no time passes. */
  set(byMs: number): void {
    this.#setByMs += byMs
  }

  /** Moves time forward, and fires the timers that are due on the way. */
  advance(ms: number): void {
    const untilMs = this.#nowMs + ms
    for (;;) {
      const [due] = this.#timers.filter(({ atMs }) => atMs <= untilMs).toSorted((a, b) => a.atMs - b.atMs)
      if (due === undefined) break
      this.#timers = this.#timers.filter((timer) => timer !== due)
      this.#nowMs = Math.max(this.#nowMs, due.atMs)
      due.callback()
    }
    this.#nowMs = untilMs
  }
}
