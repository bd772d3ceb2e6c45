/** Time and timers, so that a simulation can own both. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Milliseconds of a clock that is never set, from an arbitrary start, with fractions; for durations. */
  monotonicMs(): number
  /** Calls back once after `ms`; the returned function cancels. */
  after(ms: number, callback: () => void): () => void
  /** From 0 up to, but not including, 1; for jitter. */
  random(): number
}
