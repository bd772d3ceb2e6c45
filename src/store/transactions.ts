import { assert } from '../lib/assert.ts'
import type { DatabaseSync } from 'node:sqlite'

/** Transactions on the one connection. They run in one turn of the event loop, so nothing comes between check and write. */
export class Transactions {
  readonly #db: DatabaseSync
  readonly #prepare: () => void
  readonly #onCommit: () => void
  #open = false
  #afterCommit: (() => void)[] = []

  /**
   * `prepare` is called before each transaction and each lone write, and may write itself: no rollback takes that back.
   * `onCommit` is called after each commit that somebody may be promised.
   */
  constructor(
    db: DatabaseSync,
    { prepare, onCommit }: { readonly prepare: () => void; readonly onCommit: () => void },
  ) {
    this.#db = db
    this.#prepare = prepare
    this.#onCommit = onCommit
  }

  /** All of it or, where it throws, nothing. Inside another transaction it is a part of that. */
  commit<T>(write: () => T): T {
    if (this.#open) return write()
    const result = this.#within(write, 'COMMIT')
    this.#onCommit()
    for (const callback of this.#afterCommit.splice(0)) callback()
    return result
  }

  /** One statement that is committed by itself, and that nobody is promised. Inside a transaction it is a part of that. */
  writeAlone<T>(write: () => T): T {
    if (!this.#open) this.#prepare()
    return write()
  }

  /** What `write` would do and answer; then all of it is taken back. */
  rehearse<T>(write: () => T): T {
    assert(!this.#open, 'a rehearsal inside a transaction')
    try {
      return this.#within(write, 'ROLLBACK')
    } finally {
      this.#afterCommit = []
    }
  }

  /** Calls back when the transaction under way is committed, or at once where there is none. */
  afterCommit(callback: () => void): void {
    if (this.#open) this.#afterCommit.push(callback)
    else callback()
  }

  #within<T>(write: () => T, end: 'COMMIT' | 'ROLLBACK'): T {
    this.#prepare()
    this.#db.exec('BEGIN IMMEDIATE')
    this.#open = true
    try {
      const result = write()
      this.#db.exec(end)
      return result
    } catch (error) {
      this.#afterCommit = []
      // SQLite has rolled back by itself where the disk is full or fails (sqlite.org/lang_transaction).
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    } finally {
      this.#open = false
    }
  }
}
