import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Sha256 } from '../../core/ids.ts'
import { forgetImageUses } from './image-uses.ts'
import type { Transactions } from '../database/transactions.ts'

/** Images that the controller wants removed, until they are gone. Storing a VM withdraws the removal of its images. */
export class ImageRemovals {
  readonly #db: DatabaseSync
  readonly #transactions: Transactions
  readonly #all: StatementSync
  readonly #get: StatementSync
  readonly #note: StatementSync

  constructor(db: DatabaseSync, transactions: Transactions) {
    this.#db = db
    this.#transactions = transactions
    this.#all = db.prepare('SELECT sha256 FROM image_removals ORDER BY sha256')
    this.#get = db.prepare('SELECT sha256 FROM image_removals WHERE sha256 = ?')
    this.#note = db.prepare(
      'INSERT INTO image_removals (sha256, asked_at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING',
    )
  }

  all(): Sha256[] {
    return this.#all.all().map((row) => String(row['sha256']) as Sha256)
  }

  has(sha256: Sha256): boolean {
    return this.#get.get(sha256) !== undefined
  }

  /**
   * Notes that the image must be removed. The caller has checked, in the same transaction, that no VM on record uses
   * it.
   */
  note(sha256: Sha256, nowMs: number): void {
    this.#transactions.commit(() => {
      this.#note.run(sha256, nowMs)
    })
  }

  /** Forgets images that are gone. An image whose removal was withdrawn meanwhile keeps its uses on record. */
  forget(images: readonly Sha256[]): void {
    this.#transactions.commit(() => {
      for (const sha256 of images) {
        if (!this.has(sha256)) continue
        this.#db.prepare('DELETE FROM image_removals WHERE sha256 = ?').run(sha256)
        forgetImageUses(this.#db, sha256)
      }
    })
  }
}
