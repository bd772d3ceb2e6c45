import { certificateEvents } from '../../core/events/certificate-events.ts'
import { isSame } from '../../lib/is-same.ts'
import { Meta } from '../database/meta.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { TrustNoted, TrustSeen } from '../../core/events/certificate-events.ts'
import type { EventTable } from '../events/event-table.ts'
import type { Transactions } from '../database/transactions.ts'

/** The certificates and revocation lists that were seen. It is a row of `meta`, which older versions pass over. */
export class CertificateRow {
  readonly #transactions: Transactions
  readonly #meta: Meta
  readonly #events: EventTable

  constructor(db: DatabaseSync, transactions: Transactions, events: EventTable) {
    this.#transactions = transactions
    this.#meta = new Meta(db)
    this.#events = events
  }

  /**
   * Notes what a look found, with the events of what has changed. Throws StateUnwritable; the next look finds it again.
   */
  note(seen: TrustSeen, nowMs: number): void {
    const before = this.#get()
    const { events, noted } = certificateEvents(before, seen, nowMs)
    if (isSame(before, noted)) return
    this.#transactions.writeTogether(() => {
      this.#meta.set(KEY, JSON.stringify(noted))
      this.#events.append(nowMs, events)
    })
  }

  #get(): TrustNoted {
    const json = this.#meta.get(KEY)
    return json === undefined ? {} : (JSON.parse(json) as TrustNoted)
  }
}

const KEY = 'certificates'
