import { limits } from '../../config/limits.ts'
import { OutboundFailure } from '../outbound/outbound-failure.ts'

/** Ends a request when its source sends no byte for `limits.sourceSilenceMs`. */
export class Silence {
  /** Aborts with an OutboundFailure, or with the reason of the caller's signal. */
  readonly signal: AbortSignal
  /** The signal of the caller. */
  readonly caller: AbortSignal
  readonly #over = new AbortController()
  #timer: NodeJS.Timeout | undefined

  constructor(caller: AbortSignal) {
    this.caller = caller
    this.signal = AbortSignal.any([caller, this.#over.signal])
    this.restart()
  }

  /** Counts from now: a byte came, or the reader is ready for the next one. */
  restart(): void {
    clearTimeout(this.#timer)
    const ms = limits.sourceSilenceMs
    const over = (): void =>
      this.#over.abort(new OutboundFailure('unreachable', `it sent nothing for ${ms / 1000} s`))
    this.#timer = setTimeout(over, ms)
  }

  /** Stops counting: nothing is expected of the source. */
  pause(): void {
    clearTimeout(this.#timer)
  }
}
