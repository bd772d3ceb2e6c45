import { limits } from '../../config/limits.ts'
import { MIB } from '../../lib/byte-units.ts'

/**
 * Ends a fetch that takes long and brings little. A fetch has one span of time, and another one as long as enough came in
 * the last: a large image that keeps arriving would otherwise be fetched in part again and again.
 */
export class FetchTime {
  readonly #abort = new AbortController()
  readonly #timer: NodeJS.Timeout
  #bytes = 0

  /** @param ms the length of a span */
  constructor(ms: number) {
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

  end(): void {
    clearInterval(this.#timer)
  }

  #judge(ms: number): void {
    const enough = limits.fetchBytesPerSecondMin * (ms / 1000)
    if (this.#bytes < enough)
      this.#abort.abort(new Error(`less than ${enough / MIB} MiB came in ${ms / 1000} s`))
    this.#bytes = 0
  }
}
