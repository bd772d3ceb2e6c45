import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import { abortable } from '../../lib/abortable.ts'
import type { Clock } from '../../ports/clock.ts'

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
   * are served in order. Rejects with the signal's reason; the payment is then lost.
   */
  async spend(bytes: number, signal: AbortSignal): Promise<void> {
    const waitMs = this.#bucket?.spend(this.#clock.monotonicMs(), bytes) ?? 0
    if (waitMs === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.#clock.after(waitMs, resolve)
    try {
      await abortable(promise, signal)
    } finally {
      cancel()
    }
  }
}
