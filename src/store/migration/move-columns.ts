import { vmEvents } from '../../core/events/vm-events.ts'
import { assert } from '../../lib/assert.ts'
import { Statements } from '../database/transactions.ts'
import { DEPARTURE_STAGES, isUndecided } from '../../core/migration/departure.ts'
import { readDeparted } from './departed.ts'
import { ARRIVAL_STAGES, isComing } from '../../core/migration/arrival.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Revisions } from '../database/revisions.ts'
import type { Transactions } from '../database/transactions.ts'
import type { EventTable } from '../events/event-table.ts'
import type { Departure, ArrivalId } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { Arrival } from '../../core/migration/arrival.ts'

type MoveColumnOptions = {
  readonly db: DatabaseSync
  readonly transactions: Transactions
  readonly revisions: Revisions
  readonly events: EventTable
  /** The table of VMs. */
  readonly vms: {
    get(id: VmId): VmRecord | undefined
    readable(id: VmId): VmRecord | undefined
  }
  readonly changed: (id: VmId) => void
}

/** A column of records that says how far VMs have left this host, or have come to it. */
class MoveColumn<T extends object> {
  protected readonly statements: Statements
  readonly #name: 'arrival' | 'departure'
  readonly #options: MoveColumnOptions

  constructor(name: 'arrival' | 'departure', options: MoveColumnOptions) {
    this.statements = new Statements(options.db)
    this.#name = name
    this.#options = options
  }

  /** Stores how far the VM is, and shows it. Returns the record as it is now. */
  set(id: VmId, value: T, nowMs: number): VmRecord {
    const { transactions, revisions, events, vms, changed } = this.#options
    const before = vms.get(id)
    transactions.commit(() => {
      this.statements
        .of(`UPDATE vms SET ${this.#name} = ?, revision = ?, updated_at_ms = ? WHERE id = ?`)
        .run(JSON.stringify(value), revisions.next(), nowMs, id)
      events.append(nowMs, vmEvents(before, before && { ...before, [this.#name]: value }))
    })
    const record = vms.get(id)
    assert(record !== undefined, `${id}: gone after its own change`)
    transactions.afterCommit(() => changed(id))
    return record
  }
}

/** How far VMs have left this host. */
export class Departures extends MoveColumn<Departure> {
  readonly #options: MoveColumnOptions

  constructor(options: MoveColumnOptions) {
    super('departure', options)
    this.#options = options
  }

  /** Returns the VM whose newest migration from this host has this id. */
  of(id: MigrationId): VmRecord | undefined {
    const row = this.statements
      .of("SELECT id FROM vms WHERE departure ->> '$.id' = ? AND departure IS NOT NULL")
      .get(id)
    return row && this.#options.vms.get(row['id'] as VmId)
  }

  /** Returns the departure of a VM that was released by this migration and then deleted. */
  departed(id: MigrationId): Departure | undefined {
    return readDeparted(this.#options.db, id)
  }

  /**
   * Lists the VMs that a node may take, or is taking, in the order of ids;
   * those whose records cannot be read are left out.
   */
  undecided(): VmRecord[] {
    const rows = this.statements
      .of(`SELECT id FROM vms WHERE ${IS_UNDECIDED} ORDER BY id`)
      .all({ undecided: UNDECIDED })
    return rows.flatMap((row) => this.#options.vms.readable(row['id'] as VmId) ?? [])
  }

  /** Returns whether a node may take the VM, or is taking it. Cheap, because it is asked at each change of a VM. */
  isUndecided(id: VmId): boolean {
    const statement = this.statements.of(`SELECT 1 FROM vms WHERE id = :id AND ${IS_UNDECIDED}`)
    return statement.get({ id, undecided: UNDECIDED }) !== undefined
  }
}

const UNDECIDED = JSON.stringify(DEPARTURE_STAGES.filter((stage) => isUndecided({ stage })))
const IS_UNDECIDED =
  "departure IS NOT NULL AND departure ->> '$.stage' IN (SELECT value FROM json_each(:undecided))"

/** How far VMs have come to this host. */
export class Arrivals extends MoveColumn<Arrival> {
  constructor(options: MoveColumnOptions) {
    super('arrival', options)
  }

  /** Lists the VMs that were released to this host since then, in the order of ids. */
  releasedSince(sinceMs: number): VmId[] {
    const rows = this.statements
      .of(
        "SELECT id FROM vms WHERE CASE WHEN json_valid(arrival) THEN arrival ->> '$.releasedAtMs' >= ? END ORDER BY id",
      )
      .all(sinceMs)
    return rows.map((row) => row['id'] as VmId)
  }

  /**
   * Lists the VMs that come from another host and are not released to this one, in the order of ids; those whose record
   * does not say so are left out.
   */
  coming(): VmId[] {
    const rows = this.statements
      .of(`SELECT id FROM vms WHERE CASE WHEN json_valid(arrival) THEN ${IS_COMING} END ORDER BY id`)
      .all({ coming: COMING })
    return rows.map((row) => row['id'] as VmId)
  }

  /** Returns whether a VM comes by this attempt. Throws if a record does not say by which one its VM comes. */
  isAwaited(arrival: ArrivalId): boolean {
    const statement = this.statements.of(
      `SELECT 1 FROM vms WHERE arrival ->> '$.id' = :arrival AND ${IS_COMING}`,
    )
    return statement.get({ arrival, coming: COMING }) !== undefined
  }
}

const IS_COMING = "arrival ->> '$.stage' IN (SELECT value FROM json_each(:coming))"
const COMING = JSON.stringify(ARRIVAL_STAGES.filter((stage) => isComing({ stage })))
