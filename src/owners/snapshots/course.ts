import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { needsUrls, sendDelayMs, workOf } from '../../core/snapshots/work.ts'
import { hasEnded, isOver } from '../../core/snapshots/record.ts'
import { unreachable } from '../../lib/assert.ts'
import { errorChain } from '../../log/error-chain.ts'
import { inLogContext, warnOfFault } from '../../log/log.ts'
import { capture } from './capture.ts'
import { complete } from './complete.ts'
import { SnapshotEntry } from './entry.ts'
import { fieldsOf } from './context.ts'
import { failedChange, outcomeOf, staleFailure } from './outcome.ts'
import { pack } from './pack.ts'
import { sendPart } from './send.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { SnapshotRecord } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'
import type { LogContext } from '../../log/log.ts'
import type { SnapshotsContext, Task } from './context.ts'
import type { Failure, Outcome } from './outcome.ts'

/** Actions of a course; each runs at most once at a time. `part` and its number mean that part's sending. */
type Doing = 'capture' | 'pack' | 'complete' | `part ${number}`

/** Trouble with a VM that may end when the state of the VM changes. */
const OF_VM: ReadonlySet<FaultCode> = new Set(['disk_missing', 'vm_unsettled'])

const BUG = 'a bug in the course of a snapshot'

export type CourseOptions = {
  readonly context: SnapshotsContext
  readonly record: SnapshotRecord
  /**
   * Called when nothing of the course runs any more: it has ended, or the snapshot was deleted. `isLeft`: staging that
   * is of no use could not be removed.
   */
  readonly onOver: (isLeft: boolean) => void
}

/**
 * Moves one snapshot on until it ends. The record alone decides what to do next. Every end of an action, and every wake
 * of the course, leads to another look at the record.
 */
export class Course {
  readonly entry: SnapshotEntry
  readonly vmId: VmId
  readonly #task: Task
  /** Log fields of the newest request; actions that begin from now on carry them. */
  #fields: LogContext
  readonly #onOver: (isLeft: boolean) => void
  readonly #abort = new AbortController()
  readonly #underWay = new Map<Doing, Promise<void>>()
  /** Actions that wait for a time, each with the function that cancels the wait. */
  readonly #held = new Map<Doing | 'look', () => void>()
  readonly #attempts = new Map<Doing, number>()
  /** The action whose trouble is on record. */
  #troubled: Doing | undefined
  #ending: Promise<void> | undefined
  #stopping = false
  #loggedSent = false
  /** Whether the record was changed from outside, and not read since. */
  #isPoked = false

  constructor({ context, record, onOver }: CourseOptions) {
    this.#fields = fieldsOf(record)
    this.entry = new SnapshotEntry(record, { ...context, clock: context.host.clock })
    const { signal } = this.#abort
    this.#task = {
      ...context,
      entry: this.entry,
      signal,
      look: () => this.#look(),
    }
    this.vmId = record.vmId
    this.#onOver = onOver
  }

  /** Begins what the record says. If it cannot be read again just now, the course looks later. */
  begin({ stage, createdAtMs }: SnapshotRecord): void {
    const age_ms = this.#task.host.clock.now() - createdAtMs
    inLogContext(this.#fields, () => this.#task.log.info({ stage, age_ms }, 'snapshot under way'))
    this.#look()
  }

  /** Looks again after the record was changed from outside. Earlier failures no longer hold anything back. */
  poke(): void {
    this.#isPoked = true
    this.#look()
  }

  /** Reads what the request brought. If that fails, the next look does it. */
  #takePoke(): void {
    if (!this.#isPoked) return
    const record = this.entry.find()
    if (record !== undefined) this.#fields = fieldsOf(record)
    this.entry.readUrls()
    this.#isPoked = false
    for (const cancel of this.#held.values()) cancel()
    this.#held.clear()
    this.#attempts.clear()
  }

  /** Looks again after the VM has changed, if a capture waits for it. Other trouble keeps its back-off. */
  noticeVm(): void {
    const cancel = this.#held.get('capture')
    const { trouble } = this.entry.find() ?? {}
    if (cancel === undefined || (trouble !== undefined && !OF_VM.has(trouble.code))) return
    cancel()
    this.#held.delete('capture')
    this.#look()
  }

  /** Gives the snapshot up for good. */
  failStale(message: string): void {
    if (this.entry.find() === undefined || this.#ending !== undefined) return
    inLogContext(this.#fields, () => this.#fail(staleFailure(message)))
    this.#look()
  }

  /** Cancels all running actions and resolves when they have ended; the next daemon continues from there. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#cancel()
    await Promise.all(this.#underWay.values())
    await this.#ending
  }

  #look(): void {
    if (this.#stopping || this.#ending !== undefined) return
    try {
      this.#takePoke()
      inLogContext(this.#fields, () => this.#doNext())
    } catch (error) {
      inLogContext(this.#fields, () => this.#stumble('look', error))
    }
  }

  #doNext(): void {
    const record = this.entry.find()
    if (record === undefined || hasEnded(record)) {
      this.#ending = this.#end()
      return
    }
    const work = workOf(record, this.entry.unsent, this.entry.urls)
    if (record.stage === 'sending' && work.send.length === 0 && work.lacks.parts.length === 0)
      this.#logSent(record)
    if (work.capture) this.#begin('capture', () => capture(this.#task))
    if (work.pack) this.#begin('pack', () => pack(this.#task))
    if (work.complete) this.#begin('complete', () => complete(this.#task))
    for (const part of work.send) {
      if (this.#partsBegun() >= limits.partsUnderWayMax) break
      this.#begin(`part ${part.number}`, () => sendPart(this.#task, part))
    }
  }

  #logSent({ capture: captured }: SnapshotRecord): void {
    if (this.#loggedSent) return
    this.#loggedSent = true
    const elapsed_ms = this.#task.host.clock.now() - (captured?.atMs ?? 0)
    this.#task.log.info({ part_count: this.entry.parts.length, elapsed_ms }, 'snapshot sent')
  }

  /**
   * Counts the parts that are being sent, and those that wait to be sent again: meanwhile a busy store is not tried
   * with other parts.
   */
  #partsBegun(): number {
    return [...this.#underWay.keys(), ...this.#held.keys()].filter((doing) => doing.startsWith('part '))
      .length
  }

  #begin(doing: Doing, run: () => Promise<Outcome>): void {
    if (this.#underWay.has(doing) || this.#held.has(doing)) return
    this.#underWay.set(doing, this.#run(doing, run))
  }

  async #run(doing: Doing, run: () => Promise<Outcome>): Promise<void> {
    let outcome: Outcome
    try {
      outcome = await run()
    } catch (error) {
      outcome = outcomeOf(error, this.#abort.signal)
    }
    this.#underWay.delete(doing)
    if (this.#abort.signal.aborted) return
    try {
      this.#follow(doing, outcome)
    } catch (error) {
      this.#stumble(doing, error)
    }
    this.#look()
  }

  /** Backs off when the record cannot be read or written: until then nothing is known. */
  #stumble(doing: Doing | 'look', error: unknown): void {
    if (error instanceof HostFault)
      this.#task.log.warn({ doing, code: error.code, error: errorChain(error) }, 'snapshot delayed')
    else this.#task.log.error({ doing, error }, BUG)
    this.#hold(doing, limits.retryBackoffMsMax)
  }

  #follow(doing: Doing, outcome: Outcome): void {
    const { entry } = this
    if (entry.find() === undefined) return
    switch (outcome.kind) {
      case 'done':
        return this.#repair(doing)
      case 'vm_busy':
        return this.#waitForVm(doing, outcome.because)
      case 'retry':
        return this.#tryAgain(doing, outcome)
      case 'expired':
        this.#trouble(doing, 'upload_urls_expired', outcome.message)
        return
      case 'failed':
        return this.#fail(outcome)
      case 'bug':
        this.#task.log.error({ doing, error: outcome.error }, BUG)
        this.#trouble(doing, 'bug', 'a bug in vmhostd; its log has more', limits.retryBackoffMsMax)
        return this.#hold(doing, limits.retryBackoffMsMax)
      default:
        return unreachable(outcome)
    }
  }

  /** Clears the trouble of an action that works again. Only fresh URLs clear trouble with expired ones. */
  #repair(doing: Doing): void {
    this.#attempts.delete(doing)
    const { trouble, stage } = this.entry.record
    if (stage === 'failed' || trouble === undefined || trouble.code === 'upload_urls_expired') return
    if (this.#troubled === undefined || this.#troubled === doing) this.entry.advance({ trouble: null })
  }

  /**
   * Waits for the VM, longer each time; a change of the VM leads to a look at once. A second wait in a row is shown as
   * trouble.
   */
  #waitForVm(doing: Doing, because: string): void {
    this.#task.log.debug({ because }, 'disk capture delayed')
    const attempt = this.#countAttempt(doing)
    const delayMs = Math.min(limits.captureRetryMs * 2 ** (attempt - 1), limits.retryBackoffMsMax)
    if (attempt > 1) this.#trouble(doing, 'vm_unsettled', `waiting for VM ${this.vmId}: ${because}`, delayMs)
    this.#hold(doing, delayMs)
  }

  #tryAgain(doing: Doing, outcome: Extract<Outcome, { readonly kind: 'retry' }>): void {
    const { code, message, attemptsMax = Number.POSITIVE_INFINITY, retryAfterMs } = outcome
    const attempt = this.#countAttempt(doing)
    if (attempt >= attemptsMax)
      return this.#fail({ code, message: `${message} (tried ${attempt} times)`, resumable: true })
    const delayMs = sendDelayMs(attempt, this.#task.host.clock.random(), retryAfterMs)
    this.#trouble(doing, code, message, delayMs)
    this.#hold(doing, delayMs)
  }

  /** Counts a try that has to be repeated. Returns how many there were in a row. */
  #countAttempt(doing: Doing): number {
    const attempt = (this.#attempts.get(doing) ?? 0) + 1
    this.#attempts.set(doing, attempt)
    return attempt
  }

  #trouble(doing: Doing, code: FaultCode, message: string, delayMs?: number): void {
    const nowMs = this.#task.host.clock.now()
    const { trouble } = this.entry.record
    // Trouble that needs the controller is shown before trouble that passes by itself.
    if (trouble?.code === 'upload_urls_expired' && code !== trouble.code && this.#lacksUrls()) {
      this.#task.log.warn({ doing, code, error: message }, 'snapshot delayed while it waits for URLs')
      return
    }
    const attempt = this.#attempts.get(doing) ?? 1
    const sinceMs = trouble?.code === code ? trouble.sinceMs : nowMs
    const next = delayMs === undefined ? {} : { nextAttemptAtMs: nowMs + delayMs }
    this.entry.advance({ trouble: { code, message, sinceMs, attempt, ...next } })
    this.#troubled = doing
    this.#task.log.warn({ doing, code, attempt, error: message }, 'snapshot delayed')
  }

  #lacksUrls(): boolean {
    const { record, unsent, urls } = this.entry
    return needsUrls(workOf(record, unsent, urls).lacks)
  }

  #fail(failure: Failure): void {
    const { stage } = this.entry.record
    this.entry.advance(failedChange(failure, this.#task.host.clock.now()))
    const { code, message, resumable } = failure
    this.#task.log.error({ stage, code, resumable, error: message }, 'snapshot failed')
  }

  #hold(doing: Doing | 'look', ms: number): void {
    this.#held.get(doing)?.()
    const cancel = this.#task.host.clock.after(ms, () => {
      this.#held.delete(doing)
      this.#look()
    })
    this.#held.set(doing, cancel)
  }

  async #end(): Promise<void> {
    this.#cancel()
    await Promise.all(this.#underWay.values())
    this.#onOver(!(await this.#tidy()))
  }

  #cancel(): void {
    this.#abort.abort()
    for (const cancel of this.#held.values()) cancel()
    this.#held.clear()
  }

  /**
   * Removes the staging if it is of no use. Returns false if that failed; what stays counts until a sweep removes it.
   */
  async #tidy(): Promise<boolean> {
    const { host, room, log, store } = this.#task
    const { stagingId } = this.entry
    try {
      // Fresh URLs may have come while actions ended. Then another course continues with the staged parts.
      const record = this.entry.find()
      if (record !== undefined && !(isOver(record) && record.staged.bytes === 0)) return true
      // If the host loses power before this flush, the record comes back.
      await store.flushed()
      await host.staging.remove(stagingId)
      room.set(stagingId, 0)
      return true
    } catch (error) {
      if (error instanceof HostFault) warnOfFault(log, error, 'staging of an ended snapshot not removed')
      else log.error({ error }, BUG)
      return false
    }
  }
}
