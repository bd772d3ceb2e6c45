import { limits } from '../config/limits.ts'
import { isOvertaken, mustEnd } from '../core/vm/record.ts'
import { unreachable } from '../lib/assert.ts'
import { Semaphore } from '../lib/semaphore.ts'
import { inLogContext } from '../log/log.ts'
import { recordFailedPass, runPass } from './pass.ts'
import { ReportedLooks } from './reported-looks.ts'
import { isLong } from './steps/steps.ts'
import type { VmId } from '../core/ids.ts'
import type { StepKind } from '../core/plan/step.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Cause, Next, WorkerContext } from './context.ts'
import type { PassPlaces, RunInPlace } from './pass-places.ts'

export type WorkerOptions = {
  readonly places: PassPlaces
  /** Called when the VM is deleted and forgotten. */
  readonly onGone: () => void
}

type ReasonTerms = {
  /** The reason concerns all VMs. A pass with only such reasons comes after the passes of others. */
  readonly ofAll?: boolean
}

/** A task while no pass of its VM runs. {@link Reconciler.betweenPasses} describes its signals. */
export type TaskBetweenPasses<T> = (ending: AbortSignal, guestMustEnd: AbortSignal) => Promise<T>

/** The means to end what runs, a pass or a task between passes. */
type Aborts = {
  /** Cancels the timer that aborts both when the grace of a stop is over. */
  cancelGrace: () => void
  /** Aborts what runs. */
  readonly abort: AbortController
  /** Also aborted when the guest must end now. */
  readonly guestMustEnd: AbortController
}

const newAborts = (): Aborts => ({
  abort: new AbortController(),
  guestMustEnd: new AbortController(),
  cancelGrace: () => {},
})

/** The pass under way: the record it read, and the step it has reached. */
type Running = Aborts & { record?: VmRecord; step?: StepKind }

/** Steps that make something for a guest, which a VM that must end no longer needs. */
const PREPARING: ReadonlySet<StepKind | undefined> = new Set([
  'image.ensure-fetched',
  'storage.ensure-disk',
  'storage.rebuild-disk',
])

/**
 * The only actor for a VM; it runs one pass at a time. A reason to run carries no payload. It is taken before desired
 * state is read, so no reason is lost and the newest desired state wins. A hard stop or a deletion aborts
 * the running step, and so does the end of a stop's grace. Any stop aborts a step that only prepares a start. Any
 * change, or a request for the guest, aborts a running save. While the host shuts down, only a save goes on. Every
 * other change waits for the end of the step.
 */
export class Worker {
  readonly #context: WorkerContext
  readonly #id: VmId
  readonly #options: WorkerOptions
  readonly #reasons = new Set<string>()
  /** Whether something asked for a pass of this VM, and not only of all VMs. */
  #isWanted = false
  #changedAtMs: number | undefined
  #running: Running | undefined
  /** Held by a pass, or by a task between passes. */
  readonly #lock = new Semaphore(1)
  #task: (Aborts & { readonly record: VmRecord }) | undefined
  readonly #reported: ReportedLooks
  #cancelTimer = (): void => {}
  #stopping = false
  #hasBegun = false
  #actingPasses = 0
  #idle: Promise<void> = Promise.resolve()
  readonly #first = Promise.withResolvers<void>()

  constructor(context: WorkerContext, id: VmId, options: WorkerOptions) {
    this.#context = context
    this.#id = id
    this.#options = options
    this.#reported = new ReportedLooks(context.host.clock, (reason) => this.notice(reason))
  }

  /** Asks for a pass because of something that the VM's monitor can cause. Too many such passes are put off. */
  report(reason: string): void {
    if (this.#stopping) return
    // A pass that is due anyway looks at it, and costs nothing more.
    if (this.#reasons.size > 0) this.notice(reason)
    else this.#reported.report(reason)
  }

  /** Asks for a pass because desired state or its inputs changed. That ends a back-off, and may abort what runs. */
  poke(reason: string, { ofAll = false }: ReasonTerms = {}): void {
    if (this.#stopping) return
    this.#addReason(reason, ofAll)
    this.#changedAtMs ??= this.#context.host.clock.monotonicMs()
    this.#preempt()
    this.#preemptTask()
    this.#ensureRuns()
  }

  /** Asks for a look. A back-off stays, and what runs goes on. */
  notice(reason: string, { ofAll = false }: ReasonTerms = {}): void {
    if (this.#stopping) return
    this.#addReason(reason, ofAll)
    this.#ensureRuns()
  }

  #addReason(reason: string, ofAll: boolean): void {
    this.#reasons.add(reason)
    if (!ofAll) this.#isWanted = true
  }

  #ensureRuns(): void {
    if (this.#running === undefined) this.#idle = inLogContext({ vm_id: this.#id }, () => this.#run())
  }

  /**
   * Asks for the first pass after this time. A pass that something else asked for says itself when the next one is due.
   */
  firstPassAfter(ms: number): void {
    if (!this.#hasBegun && !this.#stopping) this.#noticeAfter(ms)
  }

  #noticeAfter(ms: number): void {
    this.#cancelTimer()
    this.#cancelTimer = this.#context.host.clock.after(ms, () => this.notice('timer'))
  }

  /** Does what {@link Reconciler.betweenPasses} describes. */
  async betweenPasses<T>(task: TaskBetweenPasses<T>): Promise<T | undefined> {
    return this.#lock.run(async () => {
      const record = this.#context.store.vms.get(this.#id)
      if (this.#stopping || record === undefined) return undefined
      const current = { ...newAborts(), record }
      if (mustEndNow(record, this.#context.graces.leftMs(record))) current.guestMustEnd.abort()
      this.#abortWhenGraceEnds(current, record)
      this.#task = current
      try {
        return await task(current.abort.signal, current.guestMustEnd.signal)
      } finally {
        this.#task = undefined
        current.cancelGrace()
      }
    })
  }

  /** Resolves after the first pass, whatever its result, or when it has come to a long step. */
  firstPass(): Promise<void> {
    return this.#first.promise
  }

  /** Resolves when no pass is running. */
  idle(): Promise<void> {
    return this.#idle
  }

  /** Ignores later reasons to run, aborts the running step, and resolves when nothing runs. The guest keeps running. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#cancelTimer()
    this.#reported.stop()
    this.#running?.abort.abort()
    this.#task?.abort.abort()
    await this.#idle
    await this.#lock.run(async () => {})
    this.#first.resolve()
  }

  async #run(): Promise<void> {
    this.#hasBegun = true
    while (this.#reasons.size > 0 && !this.#stopping) {
      this.#cancelTimer()
      const running: Running = newAborts()
      this.#running = running
      const pass = async (inPlace: RunInPlace): Promise<void> => {
        const cause = this.#takeCause()
        this.#schedule(await this.#pass(cause, running, inPlace), cause)
        running.cancelGrace()
        this.#context.saves.passEnded(this.#id)
        this.#context.restores.passEnded(this.#id)
        this.#first.resolve()
      }
      // A pass that waits for a VM to move again must not occupy a place.
      await this.#lock.run(() => this.#options.places.run(pass, () => !this.#isWanted))
    }
    this.#running = undefined
  }

  #takeCause(): Cause {
    const cause = {
      reasons: [...this.#reasons],
      actingPasses: this.#actingPasses,
      ...(this.#changedAtMs === undefined ? {} : { changedAtMs: this.#changedAtMs }),
    }
    this.#reasons.clear()
    this.#isWanted = false
    this.#changedAtMs = undefined
    return cause
  }

  async #pass(cause: Cause, running: Running, inPlace: RunInPlace): Promise<Next> {
    const { store, host, observer } = this.#context
    const beganMs = host.clock.monotonicMs()
    try {
      const record = store.vms.get(this.#id)
      if (record === undefined) return { kind: 'gone' }
      running.record = record
      this.#abortWhenGraceEnds(running, record)
      const { signal } = running.abort
      return await runPass(this.#context, record, {
        cause,
        signal,
        guestMustEnd: running.guestMustEnd.signal,
        during: (step, run) => {
          running.step = step.kind
          // A start of the daemon does not wait for a download.
          if (isLong(step)) this.#first.resolve()
          return inPlace(step, run, signal)
        },
      })
    } catch (error) {
      return this.#afterThrow(error)
    } finally {
      observer?.passEnded(host.clock.monotonicMs() - beganMs)
    }
  }

  /** Records what a pass threw. This worker continues whatever is wrong with the record. */
  #afterThrow(error: unknown): Next {
    try {
      return recordFailedPass(this.#context, this.#id, error)
    } catch (unreadable) {
      this.#context.log.error({ error: unreadable }, 'VM record not readable')
      this.#leaveMemoryQueue()
      return { kind: 'after', ms: limits.retryBackoffMsMax }
    }
  }

  #leaveMemoryQueue(): void {
    const { memory, log } = this.#context
    try {
      memory.leaveQueueUnread(this.#id)
    } catch (error) {
      log.error({ error }, 'VM still in the queue for memory')
    }
  }

  #schedule(next: Next, cause: Cause): void {
    // Passes that a change overtook say nothing about convergence.
    const overtaken = this.#changedAtMs !== undefined
    this.#actingPasses = next.kind === 'again' && !overtaken ? cause.actingPasses + 1 : 0
    switch (next.kind) {
      case 'again':
        this.#reasons.add('look again')
        this.#isWanted = true
        this.#changedAtMs ??= cause.changedAtMs
        return
      case 'after':
        this.#noticeAfter(next.ms)
        return
      case 'gone':
        this.#stopping = true
        this.#reported.stop()
        this.#options.onGone()
        return
      default:
        unreachable(next)
    }
  }

  /** Aborts the running step if the stored record now wants something else of it, or the host shuts down. */
  #preempt(): void {
    const running = this.#running
    if (running?.record === undefined) return
    const now = this.#context.store.vms.get(this.#id)
    if (now === undefined) return
    if (this.#isPreempted(running.record, now, running.step)) {
      if (mustEndAtOnceSince(running.record, now)) running.guestMustEnd.abort()
      running.abort.abort()
    } else this.#abortWhenGraceEnds(running, now)
  }

  #isPreempted(started: VmRecord, now: VmRecord, step: StepKind | undefined): boolean {
    const { saves, hostEnd } = this.#context
    if (hostEnd.policy !== undefined) return !saves.has(this.#id)
    if (saves.has(this.#id)) return isOvertaken(started, now)
    return mustEndAtOnceSince(started, now) || (PREPARING.has(step) && mustEndSince(started, now))
  }

  /** Aborts what runs when the time that the guest has to end by itself is over. */
  #abortWhenGraceEnds(current: Aborts, record: VmRecord): void {
    current.cancelGrace()
    const { graces, host } = this.#context
    graces.note(record)
    const leftMs = graces.leftMs(record) ?? 0
    if (leftMs <= 0) return
    current.cancelGrace = host.clock.after(leftMs, () => {
      current.guestMustEnd.abort()
      current.abort.abort()
    })
  }

  /** Aborts the task between passes if a stop, or a deletion that ends the VM, was accepted since it began. */
  #preemptTask(): void {
    const task = this.#task
    if (task === undefined) return
    const now = this.#context.store.vms.get(this.#id)
    if (now === undefined) return
    const endsNow = mustEndAtOnceSince(task.record, now)
    if (endsNow) task.guestMustEnd.abort()
    if (endsNow || stopAcceptedSince(task.record, now)) task.abort.abort()
    this.#abortWhenGraceEnds(task, now)
  }
}

/** Returns whether the guest must end, and has no time left to end by itself. */
const mustEndNow = (record: VmRecord, graceLeftMs = 0): boolean =>
  record.deleting || (mustEnd(record) && graceLeftMs <= 0)

/**
 * Returns whether the VM must end at once since `started`: a stop without grace was accepted, whatever power followed,
 * or a deletion of a VM that was to run or whose guest could end by itself.
 */
const mustEndAtOnceSince = (started: VmRecord, now: VmRecord): boolean =>
  (stopAcceptedSince(started, now) && now.stops.grace === undefined) ||
  (now.deleting && !started.deleting && (!mustEnd(started) || started.stops.grace !== undefined))

/** Returns whether a stop, even one with grace, or a deletion was accepted since `started`. */
const mustEndSince = (started: VmRecord, now: VmRecord): boolean =>
  stopAcceptedSince(started, now) || (now.deleting && !started.deleting)

const stopAcceptedSince = (started: VmRecord, now: VmRecord): boolean =>
  now.stops.accepted > started.stops.accepted
