import { limits } from '../../config/limits.ts'
import type { Log } from '../../log/log.ts'

export type RefusedHandshake = {
  /** Absent if the connection is already gone. */
  readonly peer: string | undefined
  /** A code of OpenSSL, Node or our own. */
  readonly reason: string
}

type Sample = { count: number; peer: string | undefined; timer: NodeJS.Timeout }

/**
 * Logs connections that end before or in their TLS handshake. The first of each reason is logged at once; those that
 * follow within `limits.handshakeLogMs` are logged in one line with their number. Any peer can cause them: one line
 * each would fill the journal and use up its rate limit.
 */
export class RefusedHandshakes {
  readonly #log: Log
  readonly #everyMs: number
  readonly #samples = new Map<string, Sample>()

  constructor(log: Log, everyMs: number = limits.handshakeLogMs) {
    this.#log = log
    this.#everyMs = everyMs
  }

  note({ peer, reason }: RefusedHandshake): void {
    const key = this.#samples.has(reason) || this.#samples.size < REASONS_MAX ? reason : 'other'
    const sample = this.#samples.get(key)
    if (sample === undefined) {
      this.#notify(1, { peer, reason })
      this.#samples.set(key, {
        count: 0,
        peer,
        timer: setTimeout(() => this.#end(key), this.#everyMs).unref(),
      })
      return
    }
    sample.count += 1
    sample.peer = peer
  }

  #end(reason: string): void {
    const sample = this.#samples.get(reason)
    this.#samples.delete(reason)
    if (sample !== undefined && sample.count > 0) this.#notify(sample.count, { peer: sample.peer, reason })
  }

  #notify(count: number, { peer, reason }: RefusedHandshake): void {
    this.#log.info({ peer, reason, count }, 'connections refused in their TLS handshake')
  }
}

/** Number of reasons that are counted separately at a time. */
const REASONS_MAX = 16
