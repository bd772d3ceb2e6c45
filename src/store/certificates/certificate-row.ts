import { certificateEvents } from '../../core/events/certificate-events.ts'
import { isSame } from '../../core/events/is-same.ts'
import { Statements } from '../database/transactions.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { TrustNoted, TrustSeen } from '../../core/events/certificate-events.ts'
import type { EventTable } from '../events/event-table.ts'
import type { Transactions } from '../database/transactions.ts'

/** The certificates and revocation lists that were seen. It is a row of `meta`, which older versions pass over. */
export class CertificateRow {
  readonly #transactions: Transactions
  readonly #statements: Statements
  readonly #events: EventTable

  constructor(db: DatabaseSync, transactions: Transactions, events: EventTable) {
    this.#transactions = transactions
    this.#statements = new Statements(db)
    this.#events = events
  }

  /** Notes what a look found, with the events of what has changed. Throws StateUnwritable; the next look finds it again. */
  note(seen: TrustSeen, nowMs: number): void {
    const before = this.#get()
    const { events, noted } = certificateEvents(before, seen, nowMs)
    if (isSame(before, noted)) return
    this.#transactions.writeTogether(() => {
      this.#statements
        .of('INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2')
        .run(KEY, JSON.stringify(noted))
      this.#events.append(nowMs, events)
    })
  }

  #get(): TrustNoted {
    const row = this.#statements.of(`SELECT value FROM meta WHERE key = '${KEY}'`).get()
    return row === undefined ? {} : (JSON.parse(String(row['value'])) as TrustNoted)
  }
}

const KEY = 'certificates'
