import { vmEvents } from '../../core/events/vm-events.ts'
import { assert } from '../../lib/assert.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Revisions } from '../database/revisions.ts'
import type { Transactions } from '../database/transactions.ts'
import type { EventTable } from '../events/event-table.ts'

export type MoveColumnOptions = {
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
export class MoveColumn<T extends object> {
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
