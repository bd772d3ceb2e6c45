import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'

/**
 * Limits how much is read of one monitor, which its guest may have taken over: lines, because each one is handled, and
 * bytes, because each one is parsed. The caller passes the time as to {@link TokenBucket}.
 */
export class ReadBudget {
  readonly #lines: TokenBucket
  readonly #bytes: TokenBucket

  constructor(nowMs: number) {
    this.#lines = new TokenBucket({
      perSecond: limits.qmpLinesPerSecond,
      burst: limits.qmpLinesBurst,
      nowMs,
    })
    this.#bytes = new TokenBucket({
      perSecond: limits.qmpBytesPerSecond,
      burst: limits.qmpBytesBurst,
      nowMs,
    })
  }

  /** Counts what was read. Returns for how many whole milliseconds nothing more should be read. */
  spend(nowMs: number, { lines, bytes }: { readonly lines: number; readonly bytes: number }): number {
    return Math.max(this.#lines.spend(nowMs, lines), this.#bytes.spend(nowMs, bytes))
  }

  isFull(nowMs: number): boolean {
    return this.#lines.isFull(nowMs) && this.#bytes.isFull(nowMs)
  }
}
