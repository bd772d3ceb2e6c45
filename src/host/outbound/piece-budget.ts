import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'

/** Gives a budget the time, and lets it wait. */
export type PieceTime = {
  /** Milliseconds of a clock that is never set. */
  readonly monotonicMs: () => number
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

const SYSTEM_TIME: PieceTime = {
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }),
}

/**
 * Limits in how many pieces the body of one answer comes. Each is handled, so a body of single bytes would keep the
 * event loop busy. The bytes of a body pay for pieces of an ordinary size; a body of smaller ones is read slowly.
 */
export class PieceBudget {
  readonly #time: PieceTime
  readonly #bucket: TokenBucket
  /** Pieces that came, less those that their bytes pay for; negative if they pay for others too. */
  #owed = 0

  /** Must be made before the first byte of the body comes. */
  constructor(response: IncomingMessage, time: PieceTime = SYSTEM_TIME) {
    this.#time = time
    this.#bucket = new TokenBucket({
      perSecond: limits.outboundPiecesPerSecond,
      burst: limits.outboundPiecesBurst,
      nowMs: time.monotonicMs(),
    })
    // Counts what the parser hands over: that is the work, also for a piece that no reader gets or that is joined.
    const push = response.push.bind(response)
    response.push = (piece: Uint8Array | null, encoding) => {
      if (piece !== null) this.#owed += 1 - piece.length / limits.outboundPieceBytes
      return push(piece, encoding)
    }
  }

  /** Waits until there is time for the pieces that came. What comes meanwhile is bounded by what Node buffers. */
  async pay(signal: AbortSignal): Promise<void> {
    const ms = this.#bucket.spend(this.#time.monotonicMs(), this.#owed)
    this.#owed = 0
    if (ms > 0) await this.#time.sleep(ms, signal)
  }
}
