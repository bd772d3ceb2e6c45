import { given } from '../../lib/given.ts'
import { SCHEDULABLE, shownMaintenance } from '../../core/maintenance/maintenance.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { Maintenance } from '../../core/maintenance/maintenance.ts'
import type { Revisions } from '../database/revisions.ts'
import type { EventTable } from '../events/event-table.ts'
import type { Transactions } from '../database/transactions.ts'

/** The desired state of the host. It is two rows of `meta`, which older versions pass over. */
export class MaintenanceRow {
  readonly #transactions: Transactions
  readonly #statements: Statements
  readonly #events: EventTable
  readonly #revisions: Revisions

  constructor(db: DatabaseSync, transactions: Transactions, { events, revisions }: MaintenanceOptions) {
    this.#transactions = transactions
    this.#revisions = revisions
    this.#statements = new Statements(db)
    this.#events = events
  }

  /** The revision of the state, which every change raises; 0 before the first one. */
  get revision(): number {
    return Number(this.#read(REVISION) ?? 0)
  }

  get(): Maintenance {
    const json = this.#read(KEY)
    return json === undefined ? SCHEDULABLE : (JSON.parse(json) as Maintenance)
  }

  /** Stores another state, with its event. */
  set(after: Maintenance, nowMs: number): void {
    this.#transactions.commit(() => {
      const from = shownMaintenance(this.get())
      this.#write(KEY, JSON.stringify(after))
      this.#write(REVISION, String(this.#revisions.next()))
      const [to, detail] = [shownMaintenance(after), after.reason]
      this.#events.append(nowMs, [{ kind: 'host_maintenance', from, to, ...given({ detail }) }])
    })
  }

  /** Notes whether a drained host has no guest. */
  noteEmpty(isEmpty: boolean, nowMs: number): void {
    const { emptySinceMs: _before, ...rest } = this.get()
    this.set({ ...rest, ...(isEmpty ? { emptySinceMs: nowMs } : {}) }, nowMs)
  }

  #read(key: string): string | undefined {
    const row = this.#statements.of('SELECT value FROM meta WHERE key = ?').get(key)
    return row && String(row['value'])
  }

  #write(key: string, value: string): void {
    this.#statements
      .of('INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2')
      .run(key, value)
  }
}

type MaintenanceOptions = { readonly events: EventTable; readonly revisions: Revisions }

const KEY = 'maintenance'
const REVISION = 'maintenance_revision'
