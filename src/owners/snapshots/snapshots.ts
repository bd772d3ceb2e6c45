import { limits } from '../../config/limits.ts'
import { hasEnded } from '../../core/snapshots/record.ts'
import { FairPlaces } from '../../lib/fair-places.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { UnchangedSince } from '../../lib/unchanged-since.ts'
import { outsideLogContext } from '../../log/log.ts'
import { Course } from './course.ts'
import { Thaws } from './thaws.ts'
import { fieldsOf } from './context.ts'
import { failedChange, staleFailure } from './outcome.ts'
import { StagingRoom } from './staging-room.ts'
import { sweepStaging, toShed } from './sweep.ts'
import { MIB } from '../../lib/byte-units.ts'
import { HOUR_MS } from '../../lib/time-units.ts'
import type { SnapshotId, SnapshotRequest, StagingId } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'
import type { LogContext } from '../../log/log.ts'
import type { Store } from '../../store/store.ts'
import type { SnapshotsContext } from './context.ts'

export type SnapshotsOptions = Pick<SnapshotsContext, 'host' | 'betweenPasses' | 'log'> & {
  readonly store: SnapshotsContext['store'] & Pick<Store, 'onVmChange'>
  /** Number of parts of all snapshots that are sent at the same time. */
  readonly uploadsMax: number
  readonly stagingQuotaMib: () => number
  readonly stagingMaxAgeHours: number
}

/** Owns the snapshots: a course for each unfinished snapshot, and a sweep for what is left in staging. */
export class Snapshots {
  readonly #options: SnapshotsOptions
  readonly #context: SnapshotsContext
  readonly #thaws: Thaws
  readonly #courses = new Map<SnapshotId, Course>()
  /** Log fields for staging whose snapshot was deleted, until the staging is removed. */
  readonly #deletions = new Map<StagingId, LogContext>()
  #stopWatching = (): void => {}
  #cancelSweep = (): void => {}
  #sweeping: Promise<void> | undefined
  #sweepAgain = false
  readonly #sightings = new UnchangedSince<SnapshotId, number>()
  #isStarted = false
  #stopping = false

  constructor(options: SnapshotsOptions) {
    this.#options = options
    this.#context = {
      store: options.store,
      host: options.host,
      betweenPasses: options.betweenPasses,
      log: options.log,
      flushes: new Semaphore(limits.captureFlushesMax),
      captures: new Semaphore(limits.capturesMax),
      thawLater: (id) => this.#thaws.later(id),
      openPacks: new Semaphore(limits.openPacksMax),
      packs: new Semaphore(limits.packsMax),
      uploads: new FairPlaces(options.uploadsMax),
      room: new StagingRoom({
        quotaBytes: () => options.stagingQuotaMib() * MIB,
        onLack: () => this.#noticeLack(),
      }),
    }
    this.#thaws = new Thaws(this.#context)
  }

  /**
   * Continues all unfinished snapshots. Call it after each VM was inspected once, so that a guest paused by a crash
   * runs again.
   */
  start(): void {
    if (this.#stopping) return
    const { store } = this.#options
    this.#isStarted = true
    this.#stopWatching = store.onVmChange((id) => this.#noticeVm(id))
    this.#thaws.look()
    // All staged parts count before any course packs more, also those of ended snapshots.
    for (const { stagingId, staged } of [...store.snapshots.open(), ...store.snapshots.kept()])
      this.#context.room.set(stagingId, staged.bytes)
    for (const { id } of store.snapshots.unfinished()) this.#course(id)
    this.#sweepSoon()
  }

  /**
   * Handles a request: a snapshot was created, given fresh URLs, or deleted. The record decides; `request` is for the
   * log.
   */
  poke(id: SnapshotId, request: SnapshotRequest): void {
    const { reason, stagingId } = request
    const fields = fieldsOf({ id, ...request })
    this.#options.log.info({ ...fields, reason }, 'snapshot request accepted')
    // A request before the start is on record by then.
    if (!this.#isStarted || this.#stopping) return
    this.#guard(() => {
      const course = this.#courses.get(id)
      if (course === undefined) this.#course(id)
      else course.poke()
      if (this.#options.store.snapshots.get(id)?.stagingId === stagingId) return
      // The snapshot was deleted. The end of its course removes its staging; without a course, a sweep does.
      this.#deletions.set(stagingId, fields)
      if (!this.#isInUse(stagingId)) this.#sweepSoon()
    })
  }

  /**
   * Ends all running actions, and resolves when they have ended and guests run thawed. The next daemon continues from
   * there.
   */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#stopWatching()
    this.#cancelSweep()
    await Promise.all([...this.#courses.values()].map((course) => course.stop()))
    await this.#thaws.stop()
    await this.#sweeping
  }

  #course(id: SnapshotId): void {
    const record = this.#options.store.snapshots.get(id)
    if (record === undefined || hasEnded(record)) return
    const onOver = (isLeft: boolean): void => {
      this.#courses.delete(id)
      if (this.#stopping) return
      // Another snapshot may have the id by now, or fresh URLs may have come for a failed one.
      this.#guard(() => this.#course(id))
      if (isLeft) this.#sweepSoon()
    }
    const course = new Course({ context: this.#context, record, onOver })
    this.#courses.set(id, course)
    course.begin(record)
  }

  /** Called while the room changes, so this acts later. */
  #noticeLack(): void {
    queueMicrotask(() => {
      if (!this.#isStarted || this.#stopping) return
      this.#guard(() => {
        if (toShed(this.#context).length > 0) this.#sweepSoon()
      })
    })
  }

  /** Called during a change made elsewhere, so this acts later. */
  #noticeVm(id: VmId): void {
    queueMicrotask(() => {
      if (this.#stopping) return
      this.#guard(() => {
        this.#thaws.notice(id)
        for (const course of this.#courses.values()) if (course.vmId === id) course.noticeVm()
      })
    })
  }

  /** Catches errors: a fault of one snapshot must end neither the daemon nor the other snapshots. */
  #guard(act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#options.log.error({ error }, 'snapshot owner failed: internal error')
    }
  }

  /** Runs one sweep at a time; a call during a sweep asks for another. */
  #sweepSoon(): void {
    this.#sweepAgain = this.#sweeping !== undefined
    // The sweep concerns all snapshots, so it must not log the fields of the one that asked for it. What follows it
    // comes in a later turn, after this assignment.
    this.#sweeping ??= outsideLogContext(async () => this.#followSweep(await this.#sweep()))
  }

  /** Returns whether staging matches the records now. */
  async #sweep(): Promise<boolean> {
    this.#cancelSweep()
    this.#guard(() => this.#thaws.look())
    this.#guard(() => this.#beginMissed())
    try {
      const isSwept = await sweepStaging({
        ...this.#context,
        maxAgeMs: this.#options.stagingMaxAgeHours * HOUR_MS,
        sightings: this.#sightings,
        isInUse: (stagingId) => this.#isInUse(stagingId),
        fail: (id, message) => this.#failStale(id, message),
        deletionFields: (stagingId) => this.#deletions.get(stagingId),
      })
      if (isSwept && !this.#sweepAgain) this.#deletions.clear()
      return isSwept
    } catch (error) {
      this.#options.log.error({ error }, 'staging sweep failed: internal error')
      return false
    }
  }

  #followSweep(isSwept: boolean): void {
    this.#sweeping = undefined
    if (this.#stopping) return
    if (this.#sweepAgain) return this.#sweepSoon()
    const isAwaited = !isSwept && this.#context.room.lackingBytes() > 0
    const waitMs = isAwaited ? limits.retryBackoffMsMax : limits.stagingSweepMs
    this.#cancelSweep = this.#options.host.clock.after(waitMs, () => this.#sweepSoon())
  }

  /** Starts courses that were missed. */
  #beginMissed(): void {
    for (const { id } of this.#options.store.snapshots.unfinished())
      if (!this.#courses.has(id)) this.#guard(() => this.#course(id))
  }

  #isInUse(stagingId: StagingId): boolean {
    return [...this.#courses.values()].some(({ entry }) => entry.stagingId === stagingId)
  }

  #failStale(id: SnapshotId, message: string): void {
    const course = this.#courses.get(id)
    if (course !== undefined) return course.failStale(message)
    const { store, host, log } = this.#options
    const nowMs = host.clock.now()
    const failure = staleFailure(message)
    const record = store.snapshots.advance(id, { ...failedChange(failure, nowMs), nowMs })
    const { code, resumable } = failure
    log.error({ ...fieldsOf(record), code, resumable, error: message }, 'snapshot failed')
  }
}
