import type { DatabaseSync } from 'node:sqlite'

/**
 * Removes deleted content from the write-ahead log, which otherwise keeps it until it is overwritten. The log stays the
 * same file. Before it is emptied, its content is in the database and flushed (sqlite.org/pragma, wal_checkpoint).
 *
 * The log cannot be emptied while another connection reads the database. Then each later commit tries again.
 */
export class LogEmptying {
  readonly #db: DatabaseSync
  /** True at first, because an earlier process may have ended between a commit and the emptying. */
  #isDue = true

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  /** Empties the log. Call it outside of a transaction. */
  empty(): void {
    this.#isDue = true
    this.emptyWhereDue()
  }

  emptyWhereDue(): void {
    if (!this.#isDue) return
    try {
      this.#isDue = this.#db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.['busy'] !== 0
    } catch {
      // The commit itself is done. If the disk fails, callers that wait for a flush get the error.
    }
  }
}
