import { given } from '../../lib/given.ts'
import { SCHEDULABLE, shownMaintenance } from '../../core/maintenance/maintenance.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { Maintenance } from '../../core/maintenance/maintenance.ts'
import type { EventTable } from '../events/event-table.ts'
import type { Transactions } from '../database/transactions.ts'

/** The desired state of the host. It is a row of `meta`, which older versions pass over. */
export class MaintenanceRow {
  readonly #transactions: Transactions
  readonly #statements: Statements
  readonly #events: EventTable

  constructor(db: DatabaseSync, transactions: Transactions, events: EventTable) {
    this.#transactions = transactions
    this.#statements = new Statements(db)
    this.#events = events
  }

  get(): Maintenance {
    const row = this.#statements.of(`SELECT value FROM meta WHERE key = '${KEY}'`).get()
    return row === undefined ? SCHEDULABLE : (JSON.parse(String(row['value'])) as Maintenance)
  }

  /** Stores another state, with its event. */
  set(after: Maintenance, nowMs: number): void {
    this.#transactions.commit(() => {
      const from = shownMaintenance(this.get())
      this.#statements
        .of('INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2')
        .run(KEY, JSON.stringify(after))
      const [to, detail] = [shownMaintenance(after), after.reason]
      this.#events.append(nowMs, [{ kind: 'host_maintenance', from, to, ...given({ detail }) }])
    })
  }

  /** Notes whether a drained host has no guest. */
  noteEmpty(isEmpty: boolean, nowMs: number): void {
    const { emptySinceMs: _before, ...rest } = this.get()
    this.set({ ...rest, ...(isEmpty ? { emptySinceMs: nowMs } : {}) }, nowMs)
  }
}

const KEY = 'maintenance'
