import { limits } from '../config/limits.ts'
import { TokenBucket } from '../lib/token-bucket.ts'
import type { Clock } from '../ports/clock.ts'

/** How many looks reports can cause: at once, and then one in each such time. */
export type LookTerms = { readonly burst: number; readonly everyMs: number }

const OF_MONITOR: LookTerms = { burst: limits.monitorLooksBurst, everyMs: limits.monitorLookEveryMs }

/**
 * Bounds the looks that a monitor can cause, because its guest may have taken the monitor over. A report causes a look
 * at once, unless many came before. It is then looked at later, together with those that follow.
 */
export class ReportedLooks {
  readonly #clock: Clock
  readonly #look: (reason: string) => void
  readonly #bucket: TokenBucket
  readonly #late = new Set<string>()
  #cancelTimer = (): void => {}

  constructor(clock: Clock, look: (reason: string) => void, { burst, everyMs }: LookTerms = OF_MONITOR) {
    this.#clock = clock
    this.#look = look
    this.#bucket = new TokenBucket({ perSecond: 1000 / everyMs, burst, nowMs: clock.monotonicMs() })
  }

  report(reason: string): void {
    if (this.#late.size === 0) {
      const waitMs = this.#bucket.spend(this.#clock.monotonicMs(), 1)
      if (waitMs === 0) return this.#look(reason)
      this.#cancelTimer = this.#clock.after(waitMs, () => this.#lookLate())
    }
    this.#late.add(reason)
  }

  /** Drops the reports that have not been looked at. */
  stop(): void {
    this.#cancelTimer()
  }

  #lookLate(): void {
    const reasons = [...this.#late]
    this.#late.clear()
    for (const reason of reasons) this.#look(reason)
  }
}
