import { limits } from '../../config/limits.ts'
import { MIB } from '../../lib/byte-units.ts'

/**
 * Ends a fetch that takes long and brings little. A fetch has one span of time, and another one as long as enough came
 * in the last: a large image that keeps arriving would otherwise be fetched in part again and again. Time in which this
 * host stores what came does not count, because the source is not to blame:
 * a packed image may unpack to much more than came.
 */
export class FetchTime {
  readonly #abort = new AbortController()
  readonly #timer: NodeJS.Timeout
  readonly #nowMs: () => number
  #bytes = 0
  /** The time that this host took of the span for storing, without what is under way. */
  #storedMs = 0
  /** Since when it stores, within the span. */
  #storesSinceMs: number | undefined

  /** @param ms the length of a span */
  constructor(ms: number, nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
    this.#timer = setInterval(() => this.#judge(ms), ms)
    this.#timer.unref()
  }

  /** Aborts when the time is over; its reason says why in words. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Notes that bytes came. */
  add(bytes: number): void {
    this.#bytes += bytes
  }

  /** Waits until this host has stored something, and leaves that time out. One call at a time. */
  async storing<T>(work: Promise<T>): Promise<T> {
    this.#storesSinceMs = this.#nowMs()
    try {
      return await work
    } finally {
      this.#storedMs += this.#nowMs() - this.#storesSinceMs
      this.#storesSinceMs = undefined
    }
  }

  end(): void {
    clearInterval(this.#timer)
  }

  #judge(ms: number): void {
    const nowMs = this.#nowMs()
    const storedMs = this.#storedMs + (nowMs - (this.#storesSinceMs ?? nowMs))
    const seconds = Math.max(0, ms - storedMs) / 1000
    const enough = limits.fetchBytesPerSecondMin * seconds
    if (this.#bytes < enough)
      this.#abort.abort(new Error(`less than ${inTenths(enough / MIB)} MiB came in ${inTenths(seconds)} s`))
    this.#bytes = 0
    this.#storedMs = 0
    if (this.#storesSinceMs !== undefined) this.#storesSinceMs = nowMs
  }
}

const inTenths = (number: number): number => Math.round(number * 10) / 10
