import { assert } from '../../lib/assert.ts'
import { isUndecided } from '../../core/migration/departure.ts'
import { Statements } from '../database/transactions.ts'
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
  readonly #transactions: Transactions
  readonly #options: Options
  readonly #statements: Statements

  constructor(db: DatabaseSync, transactions: Transactions, options: Options) {
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

  /** Lists the VMs that a node may take, or is taking, in the order of ids. */
  undecided(): VmRecord[] {
    const rows = this.#statements.of('SELECT id FROM vms WHERE departure IS NOT NULL ORDER BY id').all()
    return rows.flatMap((row) => {
      const record = this.#options.recordOf(row['id'] as VmId)
      return record?.departure !== undefined && isUndecided(record.departure) ? [record] : []
    })
  }
}
