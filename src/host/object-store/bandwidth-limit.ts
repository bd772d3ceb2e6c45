import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import { abortable } from '../../lib/abortable.ts'
import type { Clock } from '../../ports/clock.ts'

/** What may go out in a time, over all that share it. */
export class BandwidthLimit {
  readonly #bucket: TokenBucket | undefined
  readonly #clock: Clock

  /** `mbitPerSecond` is in 10⁶ bits a second; 0 means no limit. */
  constructor(mbitPerSecond: number, clock: Clock) {
    this.#clock = clock
    const perSecond = (mbitPerSecond * 1_000_000) / 8
    const burst = Math.max(limits.sendChunkBytes, (perSecond * limits.sendBurstMs) / 1000)
    this.#bucket =
      perSecond === 0 ? undefined : new TokenBucket({ perSecond, burst, nowMs: clock.monotonicMs() })
  }

  /**
   * Resolves once so many bytes may go. Each who asks pays at once and waits for the debt of all, so they go in the order in
   * which they asked. Rejects with the signal's reason; what was paid is lost then.
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
