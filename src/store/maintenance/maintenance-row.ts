import { given } from '../../lib/given.ts'
import { SCHEDULABLE, shownMaintenance } from '../../core/maintenance/maintenance.ts'
import { Meta } from '../database/meta.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { Maintenance } from '../../core/maintenance/maintenance.ts'
import type { Revisions } from '../database/revisions.ts'
import type { EventTable } from '../events/event-table.ts'
import type { Transactions } from '../database/transactions.ts'

/** The desired state of the host. It is two rows of `meta`, which older versions pass over. */
export class MaintenanceRow {
  readonly #transactions: Transactions
  readonly #meta: Meta
  readonly #events: EventTable
  readonly #revisions: Revisions

  constructor(db: DatabaseSync, transactions: Transactions, { events, revisions }: MaintenanceOptions) {
    this.#transactions = transactions
    this.#revisions = revisions
    this.#meta = new Meta(db)
    this.#events = events
  }

  /** The revision of the state, which every change raises; 0 before the first one. */
  get revision(): number {
    return Number(this.#meta.get(MAINTENANCE_REVISION) ?? 0)
  }

  get(): Maintenance {
    const json = this.#meta.get(MAINTENANCE)
    return json === undefined ? SCHEDULABLE : (JSON.parse(json) as Maintenance)
  }

  /** Stores another state, with its event. */
  set(after: Maintenance, nowMs: number): void {
    this.#transactions.commit(() => {
      const from = shownMaintenance(this.get())
      this.#meta.set(MAINTENANCE, JSON.stringify(after))
      this.#meta.set(MAINTENANCE_REVISION, String(this.#revisions.next()))
      const { reason: detail, operationId } = after
      const to = shownMaintenance(after)
      this.#events.append(nowMs, [{ kind: 'host_maintenance', from, to, ...given({ detail, operationId }) }])
    })
  }

  /** Notes whether a drained host has no guest. */
  noteEmpty(isEmpty: boolean, nowMs: number): void {
    const { emptySinceMs: _before, ...rest } = this.get()
    this.set({ ...rest, ...(isEmpty ? { emptySinceMs: nowMs } : {}) }, nowMs)
  }
}

type MaintenanceOptions = { readonly events: EventTable; readonly revisions: Revisions }

/** The rows of `meta`. */
export const MAINTENANCE = 'maintenance'
export const MAINTENANCE_REVISION = 'maintenance_revision'
