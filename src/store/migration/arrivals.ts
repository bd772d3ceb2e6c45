import { assert } from '../../lib/assert.ts'
import { ARRIVAL_STAGES, isComing } from '../../core/migration/arrival.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Revisions } from '../database/revisions.ts'
import type { Transactions } from '../database/transactions.ts'

type Options = {
  readonly revisions: Revisions
  readonly recordOf: (id: VmId) => VmRecord | undefined
  readonly changed: (id: VmId) => void
}

/** How far VMs have come to this host; a column of their records. */
export class Arrivals {
  readonly #transactions: Transactions
  readonly #options: Options
  readonly #statements: Statements

  constructor(db: DatabaseSync, transactions: Transactions, options: Options) {
    this.#statements = new Statements(db)
    this.#transactions = transactions
    this.#options = options
  }

  /** Stores how far the VM has come, and shows it. Returns the record as it is now. */
  set(id: VmId, arrival: Arrival, nowMs: number): VmRecord {
    const { revisions, recordOf, changed } = this.#options
    this.#transactions.commit(() => {
      this.#statements
        .of('UPDATE vms SET arrival = ?, revision = ?, updated_at_ms = ? WHERE id = ?')
        .run(JSON.stringify(arrival), revisions.next(), nowMs, id)
    })
    const record = recordOf(id)
    assert(record !== undefined, `${id}: gone after its own change`)
    this.#transactions.afterCommit(() => changed(id))
    return record
  }

  /** Lists the VMs that were released to this host since then, in the order of ids. */
  releasedSince(sinceMs: number): VmId[] {
    const rows = this.#statements
      .of("SELECT id FROM vms WHERE arrival ->> '$.releasedAtMs' >= ? ORDER BY id")
      .all(sinceMs)
    return rows.map((row) => row['id'] as VmId)
  }

  /** Lists the VMs that come from another host and are not released to this one, in the order of ids. */
  coming(): VmId[] {
    const rows = this.#statements
      .of(
        "SELECT id FROM vms WHERE arrival ->> '$.stage' IN (SELECT value FROM json_each(:coming)) ORDER BY id",
      )
      .all({ coming: COMING })
    return rows.map((row) => row['id'] as VmId)
  }
}

const COMING = JSON.stringify(ARRIVAL_STAGES.filter((stage) => isComing({ stage })))
