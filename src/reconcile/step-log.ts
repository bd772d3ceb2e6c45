import { given } from '../lib/given.ts'
import type { Step, StepKind } from '../core/plan/step.ts'
import type { Delivery } from '../core/world/network-state.ts'
import type { Cause, Pass } from './context.ts'
import type { StepNotes } from './steps/executor.ts'

/** A step that was done, as the log shows it. Times are in milliseconds, with one decimal. */
type DoneStep = {
  readonly step: StepKind
  readonly because: string
  /** From the first step of the pass until this one. */
  readonly after_ms: number
  readonly elapsed_ms: number
  readonly given_up?: true
} & Partial<Delivery>

/**
 * The log of the steps of a pass that are done. Many steps share one line: with a line each, many VMs at once exceed
 * the rate that journald takes from a service.
 */
export class StepLog {
  readonly #pass: Pick<Pass, 'host' | 'log'>
  readonly #startedAtMs: number
  /** Fields of the first line alone. */
  #firstFields: object
  #unwritten: DoneStep[] = []
  #count = 0

  constructor({ host, log, cause }: Pick<Pass, 'host' | 'log' | 'cause'>) {
    this.#pass = { host, log }
    this.#startedAtMs = host.clock.monotonicMs()
    this.#firstFields = firstAction(cause, this.#startedAtMs)
  }

  /** Number of steps that are done, written or not. */
  get count(): number {
    return this.#count
  }

  /** Adds a step that began at `startedAtMs` of the monotonic clock and has just been done. */
  add({ kind, because }: Step, notes: StepNotes, startedAtMs: number): void {
    this.#count += 1
    this.#unwritten.push({
      step: kind,
      because,
      after_ms: rounded(startedAtMs - this.#startedAtMs),
      elapsed_ms: rounded(this.#pass.host.clock.monotonicMs() - startedAtMs),
      ...notes.delivery,
      ...given({ given_up: notes.givenUp }),
    })
  }

  /** Writes a line for the steps that were added since the last line, if there are any. */
  write(): void {
    const steps = this.#unwritten
    if (steps.length === 0) return
    const { host, log } = this.#pass
    const elapsed_ms = rounded(host.clock.monotonicMs() - this.#startedAtMs)
    log.info({ ...this.#firstFields, elapsed_ms, steps }, 'steps done')
    this.#firstFields = {}
    this.#unwritten = []
  }
}

/** Returns the delay between a change and the first action on it, if this pass is the first to act on it. */
const firstAction = ({ changedAtMs, actingPasses }: Cause, startedAtMs: number): object =>
  changedAtMs === undefined || actingPasses > 0 ? {} : { first_action_ms: rounded(startedAtMs - changedAtMs) }

/** Rounds to a tenth of a millisecond. */
const rounded = (ms: number): number => Math.round(ms * 10) / 10
