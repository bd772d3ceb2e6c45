import { limits } from '../../config/limits.ts'
import { isComing } from '../../core/migration/arrival.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Transactions } from '../database/transactions.ts'

/**
 * Notes that the guest of a VM under deletion goes back to its source, if it was still to come. The source may answer
 * later than the record ends. Notes whose offers must be over are removed, and the newest of the others are kept.
 */
export function noteGiveBack(db: DatabaseSync, { arrival }: VmRecord, nowMs: number): void {
  if (arrival === undefined || !isComing(arrival)) return
  endGiveBack(db, arrival.migrationId)
  db.prepare('INSERT INTO give_backs (at_ms, arrival) VALUES (?, ?)').run(nowMs, JSON.stringify(arrival))
  db.prepare(
    'DELETE FROM give_backs WHERE at_ms <= ? OR number <= (SELECT max(number) FROM give_backs) - ?',
  ).run(nowMs - limits.offerMsMax, limits.giveBacksMax)
}

/** Ends the note of a migration. The caller gives the transaction. */
export function endGiveBack(db: DatabaseSync, id: MigrationId): void {
  db.prepare("DELETE FROM give_backs WHERE arrival ->> '$.migrationId' = ?").run(id)
}

/**
 * Guests of VMs that were deleted here before they came, and whose sources have not answered that. The deletion writes
 * the note, and another arrival by the same migration ends it.
 */
export class GiveBackTable {
  readonly #db: DatabaseSync
  readonly #transactions: Transactions

  constructor(db: DatabaseSync, transactions: Transactions) {
    this.#db = db
    this.#transactions = transactions
  }

  /** Lists the arrivals whose VMs were deleted since then, in the order of their deletions. */
  since(atMs: number): Arrival[] {
    const rows = this.#db.prepare('SELECT arrival FROM give_backs WHERE at_ms > ? ORDER BY number').all(atMs)
    return rows.map((row) => JSON.parse(String(row['arrival'])) as Arrival)
  }

  /** Ends a note, because the source has answered. */
  end({ id }: Arrival): void {
    this.#transactions.commit(() => {
      this.#db.prepare("DELETE FROM give_backs WHERE arrival ->> '$.id' = ?").run(id)
    })
  }
}
