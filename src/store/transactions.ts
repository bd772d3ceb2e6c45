import { limits } from '../config/limits.ts'
import { assert } from '../lib/assert.ts'
import { StateUnwritable, unwritableOr } from './state-unwritable.ts'
import type { DatabaseSync } from 'node:sqlite'

/**
 * Transactions on the one connection. They run in one turn of the event loop, so nothing comes between check and write. All
 * of them throw StateUnwritable when the disk is full or the database locked; nothing is stored then.
 */
export class Transactions {
  readonly #db: DatabaseSync
  readonly #prepare: () => void
  readonly #onCommit: () => void
  #open = false
  #afterCommit: (() => void)[] = []
  #lastFailure: { readonly error: StateUnwritable; readonly atMs: number } | undefined

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

  get isOpen(): boolean {
    return this.#open
  }

  /** All of it or, where it throws, nothing. Inside another transaction it is a part of that. */
  commit<T>(write: () => T): T {
    if (this.#open) return write()
    const result = this.#attempt(() => this.#within(write, 'COMMIT'))
    this.#onCommit()
    for (const callback of this.#afterCommit.splice(0)) callback()
    return result
  }

  /** One statement that is committed by itself, and that nobody is promised. Inside a transaction it is a part of that. */
  writeAlone<T>(write: () => T): T {
    if (this.#open) return write()
    return this.#attempt(() => {
      this.#prepare()
      return write()
    })
  }

  /** What `write` would do and answer; then all of it is taken back. */
  rehearse<T>(write: () => T): T {
    assert(!this.#open, 'a rehearsal inside a transaction')
    try {
      return this.#attempt(() => this.#within(write, 'ROLLBACK'))
    } finally {
      this.#afterCommit = []
    }
  }

  /** Calls back when the transaction under way is committed, or at once where there is none. */
  afterCommit(callback: () => void): void {
    if (this.#open) this.#afterCommit.push(callback)
    else callback()
  }

  /** One that failed is not followed by others at once, since each may block the event loop. */
  #attempt<T>(write: () => T): T {
    const failure = this.#lastFailure
    if (failure !== undefined && performance.now() - failure.atMs < limits.stateRetryMs) throw failure.error
    try {
      const result = write()
      this.#lastFailure = undefined
      return result
    } catch (cause) {
      const error = unwritableOr(cause)
      if (error instanceof StateUnwritable) this.#lastFailure = { error, atMs: performance.now() }
      throw error
    }
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
