import { OutboundFailure } from '../outbound/outbound-failure.ts'
import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import { pause } from '../../lib/abortable.ts'
import type { Clock } from '../../ports/clock.ts'

/** The time limits of a request. */
export type Bounds = {
  /** The limit for the whole request, without what {@link Patience.excuse} excuses. */
  readonly totalMs: number
  /** The limit for a time without progress. */
  readonly stallMs: number
}

/**
 * Enforces the time limits of one request with a signal. It aborts with an OutboundFailure, or with the reason of the
 * caller's signal.
 */
export class Patience {
  readonly #abort = new AbortController()
  readonly #bounds: Bounds
  readonly #clock: Clock
  readonly #onAbort: () => void
  readonly #caller: AbortSignal
  #cancelTotal: () => void
  #excusedMs = 0
  #cancelStall: () => void = () => undefined

  constructor(bounds: Bounds, clock: Clock, caller: AbortSignal) {
    this.#bounds = bounds
    this.#clock = clock
    this.#caller = caller
    this.#onAbort = () => this.#abort.abort(caller.reason)
    caller.addEventListener('abort', this.#onAbort, { once: true })
    if (caller.aborted) this.#onAbort()
    this.#cancelTotal = clock.after(bounds.totalMs, () => this.#endTotal())
    this.moved()
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Records progress, and starts the stall timer again. */
  moved(): void {
    this.rest()
    const { stallMs } = this.#bounds
    this.#cancelStall = this.#clock.after(stallMs, () => this.#giveUp('nothing moved for longer', stallMs))
  }

  /**
   * Stops the stall timer until the next progress, while we wait for our own side or for something that may take long.
   */
  rest(): void {
    this.#cancelStall()
  }

  /** Adds time to the limit for the whole request, because this host itself has made it wait. */
  excuse(ms: number): void {
    this.#excusedMs += ms
  }

  /** Ends the limits when the request is over. */
  end(): void {
    this.rest()
    this.#cancelTotal()
    this.#caller.removeEventListener('abort', this.#onAbort)
  }

  #endTotal(): void {
    const ms = this.#excusedMs
    this.#excusedMs = 0
    if (ms > 0) this.#cancelTotal = this.#clock.after(ms, () => this.#endTotal())
    else this.#giveUp('it took longer', this.#bounds.totalMs)
  }

  #giveUp(what: string, ms: number): void {
    this.#abort.abort(new OutboundFailure('unreachable', `${what} than ${ms / 1000} s`))
  }
}

/** Limits the bandwidth of everything that shares it. */
export class BandwidthLimit {
  readonly #bucket: TokenBucket | undefined
  readonly #clock: Clock

  /** @param mbitPerSecond in 10⁶ bits per second; 0 means no limit */
  constructor(mbitPerSecond: number, clock: Clock) {
    this.#clock = clock
    const perSecond = (mbitPerSecond * 1_000_000) / 8
    const burst = Math.max(limits.sendChunkBytes, (perSecond * limits.sendBurstMs) / 1000)
    this.#bucket =
      perSecond === 0 ? undefined : new TokenBucket({ perSecond, burst, nowMs: clock.monotonicMs() })
  }

  /**
   * Resolves once this many bytes may be sent. Each call pays at once and waits until the debt of all is paid, so calls
   * are served in order. Calls `onWait` with the milliseconds that it is about to wait. Rejects with the signal's
   * reason; the payment is then lost.
   */
  async spend(bytes: number, signal: AbortSignal, onWait: (ms: number) => void = () => {}): Promise<void> {
    const waitMs = this.#bucket?.spend(this.#clock.monotonicMs(), bytes) ?? 0
    if (waitMs === 0) return
    onWait(waitMs)
    await pause(this.#clock, waitMs, signal)
  }
}
