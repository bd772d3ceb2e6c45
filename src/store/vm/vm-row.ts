import { given } from '../../lib/given.ts'
import { assert } from '../../lib/assert.ts'
import { limits } from '../../config/limits.ts'
import type { EventBody } from '../../core/events/event.ts'
import type { Desired } from '../../core/desired.ts'
import type { GuestSeen } from '../../core/guest/guest-seen.ts'
import type { MonitorKind } from '../../core/monitor/monitor-kind.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { Grace, PendingWake, Launch, Observed, VmRecord } from '../../core/vm/record.ts'
import type { DeviceName, Generation, OperationId, UserId, VmId } from '../../core/ids.ts'
import type { DatabaseSync } from 'node:sqlite'

/** A row of `vms` as SQLite gives it. */
export type VmRow = {
  id: string
  user_id: number
  device: string
  monitor: string
  desired: string
  labels: string
  protected: number
  deleting: number
  desired_generation: number
  observed_generation: number
  power_generation: number
  stop_accepted: number
  stop_carried_out: number
  stop_grace: string | null
  operation_id: string
  state: string
  observed: string
  launch: string | null
  wake: string | null
  keep_awake_until_ms: number | null
  guest: string | null
  departure: string | null
  arrival: string | null
  may_be_saved: number
  memory_lent: number
  memory_wanted_at_ms: number | null
  exit_streak: number
  revision: number
  created_at_ms: number
  updated_at_ms: number
}

export function recordOf(row: VmRow): VmRecord {
  assert(
    row.observed_generation <= row.desired_generation,
    `${row.id}: observed generation is ahead of desired`,
  )
  return {
    id: row.id as VmId,
    host: { userId: row.user_id as UserId, device: row.device as DeviceName },
    monitor: row.monitor as MonitorKind,
    desired: JSON.parse(row.desired) as Desired,
    metadata: {
      labels: JSON.parse(row.labels) as Record<string, string>,
      protected: row.protected === 1,
    },
    deleting: row.deleting === 1,
    generations: {
      desired: row.desired_generation as Generation,
      observed: row.observed_generation as Generation,
    },
    powerGeneration: row.power_generation as Generation,
    stops: {
      accepted: row.stop_accepted,
      carriedOut: row.stop_carried_out,
      ...(row.stop_grace === null ? {} : { grace: JSON.parse(row.stop_grace) as Grace }),
    },
    operationId: row.operation_id as OperationId,
    observed: JSON.parse(row.observed) as Observed,
    ...(row.launch === null ? {} : { launch: JSON.parse(row.launch) as Launch }),
    ...(row.wake === null ? {} : { wake: JSON.parse(row.wake) as PendingWake }),
    ...(row.keep_awake_until_ms === null ? {} : { keepAwakeUntilMs: row.keep_awake_until_ms }),
    ...(row.guest === null ? {} : { guest: JSON.parse(row.guest) as GuestSeen }),
    ...(row.departure === null ? {} : { departure: JSON.parse(row.departure) as Departure }),
    ...(row.arrival === null ? {} : { arrival: JSON.parse(row.arrival) as Arrival }),
    ...(row.may_be_saved === 1 ? { mayBeSaved: true } : {}),
    ...(row.memory_lent === 1 ? { memoryLent: true } : {}),
    ...(row.memory_wanted_at_ms === null ? {} : { memoryWantedAtMs: row.memory_wanted_at_ms }),
    exitStreak: row.exit_streak,
    revision: row.revision,
    createdAtMs: row.created_at_ms,
    updatedAtMs: row.updated_at_ms,
  }
}

export const jsonOf = (value: object | undefined): string | null =>
  value === undefined ? null : JSON.stringify(value)

/** Returns a record after progress, for its events. A generation that is not given stays. */
export function progressed(
  { wake: _past, ...before }: VmRecord,
  { observed, observedGeneration = before.generations.observed, wake }: Progressed,
): VmRecord {
  const generations = { ...before.generations, observed: observedGeneration }
  return { ...before, ...given({ wake }), observed, generations }
}

type Progressed = {
  readonly observed: Observed
  readonly observedGeneration?: Generation
  readonly wake: PendingWake | undefined
}

/**
 * The result of a pass, as the row of a VM holds it. The observed generation is not included: it rises only on the
 * disk.
 */
export type ProgressColumns = Pick<
  VmRow,
  | 'observed'
  | 'state'
  | 'launch'
  | 'wake'
  | 'may_be_saved'
  | 'stop_carried_out'
  | 'stop_grace'
  | 'exit_streak'
  | 'revision'
  | 'updated_at_ms'
>

/** SQL that sets the columns by their names. */
export const SET_PROGRESS = `UPDATE vms SET observed = :observed, state = :state, launch = :launch, wake = :wake,
  may_be_saved = :may_be_saved, stop_carried_out = :stop_carried_out, stop_grace = :stop_grace, exit_streak = :exit_streak, revision = :revision,
  updated_at_ms = :updated_at_ms`

/** SQL that sets until when a guest stays awake. A generation that is not reached keeps its operation. */
export const SET_KEEP_AWAKE = `UPDATE vms SET keep_awake_until_ms = ?,
  operation_id = CASE WHEN observed_generation = desired_generation THEN ? ELSE operation_id END, revision = ?, updated_at_ms = ?
  WHERE id = ?`

/** SQL that ends the loan of a VM's memory. */
export const END_LOAN = 'UPDATE vms SET memory_lent = 0, memory_wanted_at_ms = NULL WHERE id = ?'

/** Events of one moment. */
type Happened = { readonly atMs: number; readonly bodies: readonly EventBody[] }

/** Writes events within the transaction that writes the progress that they are about. */
type EventWriting = {
  readonly append: (happened: Happened) => void
  /** Notes that events before those that follow are lost. */
  readonly noteGap: () => void
}

/**
 * Holds progress and ends of memory loans that could not be written, but are shown and acted on. The next write of
 * anything writes them first, so no change is made without them. They are lost when the process ends;
 * another look then finds them again.
 */
export class UnwrittenProgress {
  readonly #db: DatabaseSync
  readonly #byVm = new Map<string, ProgressColumns>()
  readonly #endedLoans = new Set<VmId>()
  /** The newest events of this progress. They use fewer numbers than are reserved. */
  #events: Happened[] = []
  #lacksEvents = false
  readonly #writing: EventWriting

  constructor(db: DatabaseSync, writing: EventWriting) {
    this.#db = db
    this.#writing = writing
  }

  get isEmpty(): boolean {
    return this.#byVm.size === 0 && this.#endedLoans.size === 0
  }

  has(id: string): boolean {
    return this.#byVm.has(id)
  }

  get(id: string): ProgressColumns | undefined {
    return this.#byVm.get(id)
  }

  keep(id: string, columns: ProgressColumns, happened: Happened): void {
    this.#byVm.set(id, columns)
    const { atMs, bodies } = happened
    for (const body of bodies) this.#events.push({ atMs, bodies: [body] })
    if (this.#events.length <= limits.unwrittenEventsMax) return
    // Half of them, so that a long outage does not move the rest with each event.
    this.#events = this.#events.slice(-limits.unwrittenEventsMax / 2)
    this.#lacksEvents = true
  }

  /** VMs whose rows still say that they lend their memory, and perhaps wait for it. */
  get endedLoans(): ReadonlySet<VmId> {
    return this.#endedLoans
  }

  keepLoanEnd(id: VmId): void {
    this.#endedLoans.add(id)
  }

  /** Returns a row with all of this applied. */
  on(row: VmRow): VmRow {
    const kept = this.#byVm.get(row.id)
    const loan = this.#endedLoans.has(row.id as VmId)
      ? { memory_lent: 0, memory_wanted_at_ms: null }
      : undefined
    return kept === undefined && loan === undefined ? row : { ...row, ...kept, ...loan }
  }

  /**
   * Writes all of it; call this outside of any transaction. Throws what SQLite throws, and keeps everything then.
   */
  write(): void {
    if (this.isEmpty) return
    const statement = this.#db.prepare(`${SET_PROGRESS} WHERE id = :id`)
    const endLoan = this.#db.prepare(END_LOAN)
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      for (const [id, columns] of this.#byVm) statement.run({ ...columns, id })
      for (const id of this.#endedLoans) endLoan.run(id)
      if (this.#lacksEvents) this.#writing.noteGap()
      for (const happened of this.#events) this.#writing.append(happened)
      this.#db.exec('COMMIT')
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
    this.#byVm.clear()
    this.#endedLoans.clear()
    this.#events = []
    this.#lacksEvents = false
  }
}
