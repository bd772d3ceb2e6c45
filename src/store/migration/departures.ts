import { assert } from '../../lib/assert.ts'
import { DEPARTURE_STAGES, isUndecided } from '../../core/migration/departure.ts'
import { Statements } from '../database/transactions.ts'
import { readDeparted } from './departed.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Revisions } from '../database/revisions.ts'
import type { Transactions } from '../database/transactions.ts'

type Options = {
  readonly revisions: Revisions
  readonly recordOf: (id: VmId) => VmRecord | undefined
  readonly changed: (id: VmId) => void
}

/** How far VMs have left this host; a column of their records. */
export class Departures {
  readonly #db: DatabaseSync
  readonly #transactions: Transactions
  readonly #options: Options
  readonly #statements: Statements

  constructor(db: DatabaseSync, transactions: Transactions, options: Options) {
    this.#db = db
    this.#statements = new Statements(db)
    this.#transactions = transactions
    this.#options = options
  }

  /** Stores how far the newest migration of the VM is, and shows it. Returns the record as it is now. */
  set(id: VmId, departure: Departure, nowMs: number): VmRecord {
    const { revisions, recordOf, changed } = this.#options
    this.#transactions.commit(() => {
      this.#statements
        .of('UPDATE vms SET departure = ?, revision = ?, updated_at_ms = ? WHERE id = ?')
        .run(JSON.stringify(departure), revisions.next(), nowMs, id)
    })
    const record = recordOf(id)
    assert(record !== undefined, `${id}: gone after its own change`)
    this.#transactions.afterCommit(() => changed(id))
    return record
  }

  /** Returns the VM whose newest migration from this host has this id. */
  of(id: MigrationId): VmRecord | undefined {
    const row = this.#statements
      .of("SELECT id FROM vms WHERE departure ->> '$.id' = ? AND departure IS NOT NULL")
      .get(id)
    return row && this.#options.recordOf(row['id'] as VmId)
  }

  /** Returns the departure of a VM that was released by this migration and then deleted. */
  departed(id: MigrationId): Departure | undefined {
    return readDeparted(this.#db, id)
  }

  /** Lists the VMs that a node may take, or is taking, in the order of ids. */
  undecided(): VmRecord[] {
    const rows = this.#statements
      .of(`SELECT id FROM vms WHERE ${IS_UNDECIDED} ORDER BY id`)
      .all({ undecided: UNDECIDED })
    return rows.flatMap((row) => this.#options.recordOf(row['id'] as VmId) ?? [])
  }

  /** Returns whether a node may take the VM, or is taking it. Cheap, because it is asked at each change of a VM. */
  isUndecided(id: VmId): boolean {
    const statement = this.#statements.of(`SELECT 1 FROM vms WHERE id = :id AND ${IS_UNDECIDED}`)
    return statement.get({ id, undecided: UNDECIDED }) !== undefined
  }
}

const UNDECIDED = JSON.stringify(DEPARTURE_STAGES.filter((stage) => isUndecided({ stage })))
const IS_UNDECIDED =
  "departure IS NOT NULL AND departure ->> '$.stage' IN (SELECT value FROM json_each(:undecided))"
