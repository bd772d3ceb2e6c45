import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { needsUrls, sendDelayMs, workOf } from '../../core/snapshot/work.ts'
import { isOver } from '../../core/snapshot/record.ts'
import { unreachable } from '../../lib/assert.ts'
import { errorChain } from '../../log/error-chain.ts'
import { inLogContext } from '../../log/log-context.ts'
import { capture } from './capture.ts'
import { complete } from './complete.ts'
import { SnapshotEntry } from './entry.ts'
import { fieldsOf } from './log-fields.ts'
import { outcomeOf } from './outcome.ts'
import { pack } from './pack.ts'
import { sendPart } from './send.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { SnapshotRecord } from '../../core/snapshot/record.ts'
import type { VmId } from '../../core/vm/ids.ts'
import type { LogContext } from '../../log/log-context.ts'
import type { SnapshotsContext, Task } from './context.ts'
import type { Outcome } from './outcome.ts'

/** What a course does, one of each at a time: `part` and its number are one part's sending. */
type Doing = 'capture' | 'pack' | 'complete' | `part ${number}`

/** Trouble with a VM, which another state of that may end. */
const OF_VM: ReadonlySet<FaultCode> = new Set(['disk_missing', 'vm_unsettled'])

const BUG = 'a bug in the course of a snapshot'

export type CourseOptions = {
  readonly context: SnapshotsContext
  readonly record: SnapshotRecord
  /** Nothing of it runs any more: it has ended, or was deleted. */
  readonly onOver: () => void
}

/**
 * Moves one snapshot on until it ends. What is on record tells what there is to do; whatever is over, and whatever wakes the
 * course, leads to another look at that. Nothing here is told anything but by the record.
 */
export class Course {
  readonly entry: SnapshotEntry
  readonly vmId: VmId
  readonly #task: Task
  /** Of the newest request: what begins from now on follows from that. */
  #fields: LogContext
  readonly #onOver: () => void
  readonly #abort = new AbortController()
  readonly #underWay = new Map<Doing, Promise<void>>()
  /** What waits for a time, with the way to wait no longer. */
  readonly #held = new Map<Doing | 'look', () => void>()
  readonly #attempts = new Map<Doing, number>()
  /** Whose trouble is on record. */
  #troubled: Doing | undefined
  #ending: Promise<void> | undefined
  #stopping = false
  #toldSent = false

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

  begin(): void {
    inLogContext(this.#fields, () => this.#beginAll())
  }

  #beginAll(): void {
    const { stage, createdAtMs } = this.entry.record
    const age_ms = this.#task.host.clock.now() - createdAtMs
    this.#task.log.info({ stage, age_ms }, 'snapshot under way')
    this.#look()
  }

  /** Somebody changed what is on record: nothing that failed before holds it back. */
  poke(): void {
    const record = this.entry.find()
    if (record !== undefined) this.#fields = fieldsOf(record)
    this.entry.readUrls()
    for (const cancel of this.#held.values()) cancel()
    this.#held.clear()
    this.#attempts.clear()
    this.#look()
  }

  /** Its VM changed, which a capture may have waited for. Other trouble keeps its back-off. */
  noticeVm(): void {
    const cancel = this.#held.get('capture')
    const { trouble } = this.entry.find() ?? {}
    if (cancel === undefined || (trouble !== undefined && !OF_VM.has(trouble.code))) return
    cancel()
    this.#held.delete('capture')
    this.#look()
  }

  /** It shall not go on. */
  fail(code: FaultCode, message: string): void {
    if (this.entry.find() === undefined || this.#ending !== undefined) return
    inLogContext(this.#fields, () => this.#fail({ code, message, resumable: false }))
    this.#look()
  }

  /** Ends all that is under way and resolves when it is over; the next start goes on from there. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#cancel()
    await Promise.all(this.#underWay.values())
    await this.#ending
  }

  #look(): void {
    if (this.#stopping || this.#ending !== undefined) return
    inLogContext(this.#fields, () => {
      try {
        this.#doNext()
      } catch (error) {
        this.#stumble('look', error)
      }
    })
  }

  #doNext(): void {
    const record = this.entry.find()
    if (record === undefined || record.stage === 'completed' || record.stage === 'failed') {
      this.#ending = this.#end()
      return
    }
    const work = workOf(record, this.entry.unsent, this.entry.urls)
    if (record.stage === 'sending' && work.send.length === 0 && work.lacks.parts.length === 0)
      this.#tellSent(record)
    if (work.capture) this.#begin('capture', () => capture(this.#task))
    if (work.pack) this.#begin('pack', () => pack(this.#task))
    if (work.complete) this.#begin('complete', () => complete(this.#task))
    for (const part of work.send) {
      if (this.#partsUnderWay() >= limits.partsUnderWayMax) break
      this.#begin(`part ${part.number}`, () => sendPart(this.#task, part))
    }
  }

  #tellSent({ capture: captured }: SnapshotRecord): void {
    if (this.#toldSent) return
    this.#toldSent = true
    const elapsed_ms = this.#task.host.clock.now() - (captured?.atMs ?? 0)
    this.#task.log.info({ part_count: this.entry.parts.length, elapsed_ms }, 'snapshot sent')
  }

  #partsUnderWay(): number {
    return [...this.#underWay.keys()].filter((doing) => doing.startsWith('part ')).length
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

  /** The record cannot be read or written: nothing is known until that is mended. */
  #stumble(doing: Doing | 'look', error: unknown): void {
    if (error instanceof HostFault)
      this.#task.log.warn({ doing, code: error.code, error: errorChain(error) }, 'a snapshot is held up')
    else this.#task.log.error({ doing, error }, BUG)
    this.#hold(doing, limits.retryBackoffMsMax)
  }

  #follow(doing: Doing, outcome: Outcome): void {
    const { entry } = this
    if (entry.find() === undefined) return
    switch (outcome.kind) {
      case 'done':
        return this.#mend(doing)
      case 'later':
        return this.#waitForVm(doing, outcome.because)
      case 'again':
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

  /** What it had trouble with works. URLs that are used up are mended by fresh ones alone. */
  #mend(doing: Doing): void {
    this.#attempts.delete(doing)
    const { trouble, stage } = this.entry.record
    if (stage === 'failed' || trouble === undefined || trouble.code === 'upload_urls_expired') return
    if (this.#troubled === undefined || this.#troubled === doing) this.entry.advance({ trouble: null })
  }

  /** Ever later, for a change of the VM leads to another look at once. What is not over soon is told. */
  #waitForVm(doing: Doing, because: string): void {
    this.#task.log.debug({ because }, 'the disk is not captured yet')
    const attempt = (this.#attempts.get(doing) ?? 0) + 1
    this.#attempts.set(doing, attempt)
    const delayMs = Math.min(limits.captureRetryMs * 2 ** (attempt - 1), limits.retryBackoffMsMax)
    if (attempt > 1) this.#trouble(doing, 'vm_unsettled', `waiting for VM ${this.vmId}: ${because}`, delayMs)
    this.#hold(doing, delayMs)
  }

  #tryAgain(doing: Doing, outcome: Extract<Outcome, { readonly kind: 'again' }>): void {
    const { code, message, attemptsMax = Number.POSITIVE_INFINITY, retryAfterMs } = outcome
    const attempt = (this.#attempts.get(doing) ?? 0) + 1
    this.#attempts.set(doing, attempt)
    if (attempt >= attemptsMax)
      return this.#fail({ code, message: `${message} (tried ${attempt} times)`, resumable: true })
    const delayMs = sendDelayMs(attempt, this.#task.host.clock.random(), retryAfterMs)
    this.#trouble(doing, code, message, delayMs)
    this.#hold(doing, delayMs)
  }

  #trouble(doing: Doing, code: FaultCode, message: string, delayMs?: number): void {
    const nowMs = this.#task.host.clock.now()
    const { trouble } = this.entry.record
    // What waits for the controller is told before what goes by.
    if (trouble?.code === 'upload_urls_expired' && code !== trouble.code && this.#lacksUrls()) {
      this.#task.log.warn({ doing, code, error: message }, 'a snapshot that waits for URLs has more trouble')
      return
    }
    const attempt = this.#attempts.get(doing) ?? 1
    const sinceMs = trouble?.code === code ? trouble.sinceMs : nowMs
    const next = delayMs === undefined ? {} : { nextAttemptAtMs: nowMs + delayMs }
    this.entry.advance({ trouble: { code, message, sinceMs, attempt, ...next } })
    this.#troubled = doing
    this.#task.log.warn({ doing, code, attempt, error: message }, 'a snapshot is held up')
  }

  #lacksUrls(): boolean {
    const { record, unsent, urls } = this.entry
    return needsUrls(workOf(record, unsent, urls).lacks)
  }

  #fail({ code, message, resumable }: Omit<Extract<Outcome, { kind: 'failed' }>, 'kind'>): void {
    const nowMs = this.#task.host.clock.now()
    const trouble = { code, message, sinceMs: nowMs, attempt: 1 }
    const { stage } = this.entry.record
    this.entry.advance({ stage: 'failed', trouble, resumable })
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
    try {
      // Fresh URLs may have come while this waited: then another course goes on with what is staged.
      const record = this.entry.find()
      const isOfNoUse = record === undefined || (isOver(record) && record.staged.bytes === 0)
      if (isOfNoUse) await this.#removeStaging()
    } catch (error) {
      this.#task.log.error({ error }, BUG)
    }
    this.#onOver()
  }

  #cancel(): void {
    this.#abort.abort()
    for (const cancel of this.#held.values()) cancel()
    this.#held.clear()
  }

  /** What stays is found by the next sweep. */
  async #removeStaging(): Promise<void> {
    const { host, room, log, store } = this.#task
    // A host that loses its power before this would have the record again.
    await store.flushed()
    try {
      await host.staging.remove(this.entry.stagingId)
    } catch (error) {
      if (!(error instanceof HostFault)) throw error
      log.warn({ code: error.code, error: errorChain(error) }, 'the staging of a snapshot that ended stays')
    }
    room.set(this.entry.stagingId, 0)
  }
}
