import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import type { VmId } from '../../core/ids.ts'
import type { Log } from '../../log/log.ts'
import type { FreezeOutcome, GuestAgent } from '../../ports/monitor.ts'
import { askAgent } from './guest-agent.ts'
import type { AgentAddress, AgentAnswer, AgentCommand } from './guest-agent.ts'

export type GuestAgentsOptions = {
  readonly address: (id: VmId) => AgentAddress
  /** Whether a program in the guest has the agent's port open, according to the monitor. */
  readonly listens: (id: VmId) => Promise<boolean>
  /** Returns the time in milliseconds since 1970. */
  readonly now?: () => number
  readonly freezeMs?: number
  readonly thawRetryMs?: number
  readonly answerMs?: number
  readonly shutDownMs?: number
  readonly log: Log
}

const FREEZE: AgentCommand = { name: 'guest-fsfreeze-freeze' }
const THAW: AgentCommand = { name: 'guest-fsfreeze-thaw' }
const STATUS: AgentCommand = { name: 'guest-fsfreeze-status' }

/** The agents in guests, each behind a socket of its monitor. */
export class GuestAgents implements GuestAgent {
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
      shutDownMs: limits.guestShutDownMs,
      ...options,
    }
    this.#log = options.log
  }

  /** Sends a guest the current time. The last call for a guest replaces earlier ones. */
  setGuestTime(id: VmId): void {
    void this.#setTime(id)
  }

  async #setTime(id: VmId): Promise<void> {
    this.#telling.get(id)?.abort()
    const telling = new AbortController()
    this.#telling.set(id, telling)
    const { now, answerMs } = this.#options
    const { kind } = await this.#ask(id, () => setTime(now()), answerMs, telling.signal)
    if (this.#telling.get(id) === telling) this.#telling.delete(id)
    if (kind === 'returned') this.#log.debug({}, 'guest clock set by its agent')
  }

  /**
   * Asks the agent to end its guest. Returns false if certainly no agent does so. An agent that does so never answers
   * (QEMU, docs/interop/qemu-ga-ref, guest-shutdown).
   */
  async shutDown(id: VmId, mode: 'powerdown' | 'reboot', signal: AbortSignal): Promise<boolean> {
    if (!(await this.#listens(id)) || signal.aborted) return false
    const command = { name: 'guest-shutdown', args: JSON.stringify({ mode }) }
    const { kind } = await this.#ask(id, () => command, this.#options.shutDownMs, signal)
    return kind === 'unknown' || kind === 'returned'
  }

  async freeze(id: VmId, signal: AbortSignal): Promise<FreezeOutcome> {
    if (!(await this.#listens(id)) || signal.aborted) return 'none'
    const answer = await this.#ask(id, () => FREEZE, this.#options.freezeMs, signal)
    if (UNSENT.has(answer.kind)) return 'none'
    const frozen = answer.kind === 'returned' && typeof answer.value === 'number' && answer.value > 0
    if (frozen && !signal.aborted) return 'frozen'
    this.#log.debug({ answer: answer.kind }, 'no file system frozen by the guest agent')
    // The agent may have frozen some of them, or may be about to. It runs commands in order.
    return (await this.thaw(id, this.#closing.signal)) ? 'none' : 'unknown'
  }

  /**
   * Does what the port describes. A closed port does not mean that nothing is frozen: while an agent restarts, its
   * port is closed for a moment, and what its predecessor froze stays frozen.
   */
  async thaw(id: VmId, signal: AbortSignal): Promise<boolean> {
    const { freezeMs, answerMs, thawRetryMs } = this.#options
    const until = AbortSignal.any([signal, this.#closing.signal, AbortSignal.timeout(freezeMs)])
    while (!until.aborted && (await this.#listens(id))) {
      const { kind } = await this.#ask(id, () => THAW, answerMs, until)
      if (kind === 'returned' || kind === 'absent') return true
      // An agent that cannot thaw has never frozen anything.
      if (kind === 'unsupported') return true
      if (kind === 'refused' && (await this.#isThawed(id, until))) return true
      await delay(thawRetryMs, undefined, { signal: until }).catch(() => {})
    }
    return false
  }

  /** Ends everything that is under way. Guests continue. */
  close(): void {
    for (const telling of this.#telling.values()) telling.abort()
    this.#closing.abort()
    this.#closing = new AbortController()
  }

  /** Asks an agent that refused to thaw whether everything is thawed. */
  async #isThawed(id: VmId, signal: AbortSignal): Promise<boolean> {
    const answer = await this.#ask(id, () => STATUS, this.#options.answerMs, signal)
    return answer.kind === 'returned' && answer.value === 'thawed'
  }

  /**
   * Whether an agent may be listening. A monitor that does not answer now may do so later, so an error counts as yes.
   * If the socket is gone, the question itself finds no agent.
   */
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
    const answer = await askAgent(this.#options.address(id), command, bounded)
    if (answer.kind === 'foreign')
      this.#log.warn({ reason: answer.because }, 'socket of a guest agent refused')
    return answer
  }
}

/** With these answers the command had no effect. */
const UNSENT: ReadonlySet<AgentAnswer['kind']> = new Set(['absent', 'foreign', 'silent', 'unsupported'])

/** The argument is a JSON number of nanoseconds, which a JavaScript number cannot hold. */
const setTime = (nowMs: number): AgentCommand => ({
  name: 'guest-set-time',
  args: `{"time":${BigInt(nowMs) * 1_000_000n}}`,
})
