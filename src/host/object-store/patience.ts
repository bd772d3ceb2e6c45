import type { Clock } from '../../ports/clock.ts'
import { OutboundFailure } from './outbound-failure.ts'

/** How long a request may take. */
export type Bounds = {
  /** As a whole. */
  readonly totalMs: number
  /** Without anything moving. */
  readonly stallMs: number
}

/** The bounds of one request, as a signal: it aborts with an OutboundFailure, or with the reason of the caller's signal. */
export class Patience {
  readonly #abort = new AbortController()
  readonly #bounds: Bounds
  readonly #clock: Clock
  readonly #onAbort: () => void
  readonly #caller: AbortSignal
  readonly #cancelTotal: () => void
  #cancelStall: () => void = () => undefined

  constructor(bounds: Bounds, clock: Clock, caller: AbortSignal) {
    this.#bounds = bounds
    this.#clock = clock
    this.#caller = caller
    this.#onAbort = () => this.#abort.abort(caller.reason)
    caller.addEventListener('abort', this.#onAbort, { once: true })
    if (caller.aborted) this.#onAbort()
    this.#cancelTotal = clock.after(bounds.totalMs, () => this.#giveUp('it took longer', bounds.totalMs))
    this.moved()
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Something moved: the time in which nothing does begins anew. */
  moved(): void {
    this.rest()
    const { stallMs } = this.#bounds
    this.#cancelStall = this.#clock.after(stallMs, () => this.#giveUp('nothing moved for longer', stallMs))
  }

  /** Nothing need move until the next that does: what is waited for is our own, or may take its time. */
  rest(): void {
    this.#cancelStall()
  }

  /** The request is over. */
  end(): void {
    this.rest()
    this.#cancelTotal()
    this.#caller.removeEventListener('abort', this.#onAbort)
  }

  #giveUp(what: string, ms: number): void {
    this.#abort.abort(new OutboundFailure('unreachable', `${what} than ${ms / 1000} s`))
  }
}
