import type { DatabaseSync } from 'node:sqlite'

/**
 * Takes what was deleted out of the write-ahead log, which else keeps it until it is written over. The log stays the same
 * file, and all that was in it is in the database, and flushed, before it is emptied (sqlite.org/pragma, wal_checkpoint).
 *
 * Where somebody else reads the database it cannot be emptied; then that is tried again after each later commit.
 */
export class LogEmptying {
  readonly #db: DatabaseSync
  /** A process before may have ended between a commit and this. */
  #isDue = true

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  /** Outside of a transaction. */
  empty(): void {
    this.#isDue = true
    this.emptyWhereDue()
  }

  emptyWhereDue(): void {
    if (!this.#isDue) return
    try {
      this.#isDue = this.#db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.['busy'] !== 0
    } catch {
      // What was committed is committed. Where the disk fails, whoever waits for a flush is told.
    }
  }
}
