import { limits } from '../../config/limits.ts'

/** An agent's answer to a command. Anything that is not a value is a refusal. */
export type AgentLine =
  | { readonly kind: 'returned'; readonly value: unknown }
  | { readonly kind: 'unsupported' | 'refused' }

/** `excess`: the agent sent more than an honest one does, so nothing more is read from it. */
export type AgentReading = 'more' | 'synced' | 'excess' | AgentLine

/**
 * The byte that an agent puts before its answer to guest-sync-delimited (QEMU, docs/interop/qemu-ga-ref). JSON never
 * contains it.
 */
const SENTINEL = 0xff
const NEWLINE = 0x0a

/**
 * Reads an agent's answers to one question. The guest decides what it sends, so the work is bounded. Until the agent
 * has answered `guest-sync-delimited`, only lines that begin with its sentinel are parsed. The bytes, the lines and
 * their lengths are limited.
 */
export class AgentAnswers {
  readonly #syncId: number
  #rest: Buffer = Buffer.alloc(0)
  #isSynced = false
  /** How many bytes were read. */
  bytes = 0
  /** How many lines were parsed. */
  lines = 0

  /** @param syncId the value that the agent returns to our guest-sync-delimited */
  constructor(syncId: number) {
    this.#syncId = syncId
  }

  /**
   * Takes the next bytes. After `synced` the command may be sent; bytes that came with that answer are kept for {@link
   * next}.
   */
  take(chunk: Buffer): AgentReading {
    this.bytes += chunk.length
    if (this.bytes > limits.guestAgentBytesMax) return 'excess'
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    return this.next()
  }

  /** Reads the next answer from bytes that were taken before. */
  next(): AgentReading {
    for (;;) {
      if (!this.#isSynced) this.#skipToSentinel()
      const end = this.#rest.indexOf(NEWLINE)
      const length = end === -1 ? this.#rest.length : end
      if (length > limits.guestAgentLineBytesMax) return 'excess'
      if (end === -1) return 'more'
      const answer = lineOf(this.#rest.subarray(0, end))
      this.#rest = this.#rest.subarray(end + 1)
      if (this.#isSynced) return answer
      this.#isSynced = answer.kind === 'returned' && answer.value === this.#syncId
      if (this.#isSynced) return 'synced'
      this.lines += 1
      if (this.lines >= limits.guestAgentLinesMax) return 'excess'
    }
  }

  /** Drops bytes before the sentinel, which answer an earlier question, or none. */
  #skipToSentinel(): void {
    const at = this.#rest.indexOf(SENTINEL)
    this.#rest = at === -1 ? Buffer.alloc(0) : this.#rest.subarray(at)
  }
}

type AgentMessage = { readonly return?: unknown; readonly error?: { readonly class?: unknown } } | null

function lineOf(line: Buffer): AgentLine {
  try {
    const said = JSON.parse(line.toString('latin1', line.lastIndexOf(SENTINEL) + 1)) as AgentMessage
    if (said?.return !== undefined) return { kind: 'returned', value: said.return }
    return { kind: said?.error?.class === 'CommandNotFound' ? 'unsupported' : 'refused' }
  } catch {
    return { kind: 'refused' }
  }
}
