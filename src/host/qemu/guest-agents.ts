import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import type { VmId } from '../../core/vm/ids.ts'
import type { Log } from '../../log/log.ts'
import type { FreezeOutcome } from '../../ports/monitor.ts'
import { askAgent } from './guest-agent.ts'
import type { AgentAnswer, AgentCommand } from './guest-agent.ts'

export type GuestAgentsOptions = {
  readonly socketPath: (id: VmId) => string
  /** Whether something in the guest has the agent's port open, as the monitor tells. */
  readonly listens: (id: VmId) => Promise<boolean>
  /** Milliseconds since 1970. */
  readonly now?: () => number
  readonly freezeMs?: number
  readonly thawRetryMs?: number
  readonly answerMs?: number
  readonly log: Log
}

const FREEZE: AgentCommand = { name: 'guest-fsfreeze-freeze' }
const THAW: AgentCommand = { name: 'guest-fsfreeze-thaw' }
const STATUS: AgentCommand = { name: 'guest-fsfreeze-status' }

/** The agents in guests, where there are any. None of these methods fails. */
export class GuestAgents {
  readonly #options: Required<GuestAgentsOptions>
  readonly #log: Log
  readonly #telling = new Map<VmId, AbortController>()
  #closing = new AbortController()

  constructor(options: GuestAgentsOptions) {
    this.#options = {
      now: Date.now,
      freezeMs: limits.freezeMs,
      thawRetryMs: limits.thawRetryMs,
      answerMs: limits.guestAgentMs,
      ...options,
    }
    this.#log = options.log
  }

  /** Tells a guest what time it is; the last call for a guest replaces those before. */
  async tellTime(id: VmId): Promise<void> {
    this.#telling.get(id)?.abort()
    const telling = new AbortController()
    this.#telling.set(id, telling)
    const { now, answerMs } = this.#options
    const { kind } = await this.#ask(id, () => setTime(now()), answerMs, telling.signal)
    if (this.#telling.get(id) === telling) this.#telling.delete(id)
    if (kind === 'returned') this.#log.debug({}, 'the agent in the guest took the time')
  }

  /** As `Monitor.freezeFileSystems`. */
  async freeze(id: VmId, signal: AbortSignal): Promise<FreezeOutcome> {
    if (!(await this.#listens(id)) || signal.aborted) return 'none'
    const answer = await this.#ask(id, () => FREEZE, this.#options.freezeMs, signal)
    if (UNSENT.has(answer.kind)) return 'none'
    if (answer.kind === 'returned' && Number(answer.value) > 0 && !signal.aborted) return 'frozen'
    this.#log.debug({ answer: answer.kind }, 'the agent in the guest froze no file system')
    // It may have frozen some of them, or be about to: it takes what it is told in order.
    return (await this.thaw(id, this.#closing.signal)) ? 'none' : 'unknown'
  }

  /**
   * As `Monitor.thawFileSystems`. Nobody who listens is no answer: an agent that is started again has the port closed for a
   * moment, and what the one before it froze stays frozen.
   */
  async thaw(id: VmId, signal: AbortSignal): Promise<boolean> {
    const { freezeMs, answerMs, thawRetryMs } = this.#options
    const until = AbortSignal.any([signal, this.#closing.signal, AbortSignal.timeout(freezeMs)])
    while (!until.aborted && (await this.#listens(id))) {
      const { kind } = await this.#ask(id, () => THAW, answerMs, until)
      if (kind === 'returned' || kind === 'absent') return true
      // Who cannot thaw has never frozen.
      if (kind === 'unsupported') return true
      if (kind === 'refused' && (await this.#isThawed(id, until))) return true
      await delay(thawRetryMs, undefined, { signal: until }).catch(() => {})
    }
    return false
  }

  /** Ends all that is under way; guests go on. */
  close(): void {
    for (const telling of this.#telling.values()) telling.abort()
    this.#closing.abort()
    this.#closing = new AbortController()
  }

  /** As an agent says that refused to thaw. */
  async #isThawed(id: VmId, signal: AbortSignal): Promise<boolean> {
    const answer = await this.#ask(id, () => STATUS, this.#options.answerMs, signal)
    return answer.kind === 'returned' && answer.value === 'thawed'
  }

  /** A monitor that does not answer now may do so later; only where its socket is gone there is nobody to ask. */
  async #listens(id: VmId): Promise<boolean> {
    return this.#options.listens(id).catch(() => true)
  }

  async #ask(
    id: VmId,
    command: () => AgentCommand,
    withinMs: number,
    signal: AbortSignal,
  ): Promise<AgentAnswer> {
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(withinMs)])
    const answer = await askAgent(this.#options.socketPath(id), command, bounded)
    if (answer.kind === 'foreign')
      this.#log.warn({ reason: answer.because }, 'socket of a guest agent refused')
    return answer
  }
}

/** Nothing was done of a command with such an answer. */
const UNSENT: ReadonlySet<AgentAnswer['kind']> = new Set(['absent', 'foreign', 'silent', 'unsupported'])

/** A JSON number of nanoseconds, which a number of JavaScript cannot hold. */
const setTime = (nowMs: number): AgentCommand => ({
  name: 'guest-set-time',
  args: `{"time":${BigInt(nowMs) * 1_000_000n}}`,
})
