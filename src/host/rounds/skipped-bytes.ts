import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'

/**
 * Paces the bytes that streams read and hash again without sending them. Another host chooses where its streams
 * continue, so it could make this one read whole disks without end. The pace is not that of the network: a stream that
 * continues on a slow one must not be silent for so long that its destination gives it up.
 */
export class SkippedBytes {
  readonly #bucket = new TokenBucket({
    perSecond: limits.roundSkippedBytesPerSecond,
    burst: limits.roundDigestEveryBytes,
    nowMs: performance.now(),
  })

  /** Resolves once these bytes may have been read. Rejects with the signal's reason. */
  async spend(bytes: number, signal: AbortSignal): Promise<void> {
    const pauseMs = this.#bucket.spend(performance.now(), bytes)
    if (pauseMs > 0) await abortable(delay(pauseMs), signal)
  }
}
