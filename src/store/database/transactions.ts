import { limits } from '../../config/limits.ts'
import { assert } from '../../lib/assert.ts'
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { HostFault } from '../../core/errors.ts'
import {
  SQLITE_BUSY,
  SQLITE_CANTOPEN,
  SQLITE_FULL,
  SQLITE_IOERR,
  SQLITE_LOCKED,
  SQLITE_READONLY,
  primaryCodeOf,
} from './result-code.ts'

/**
 * Transactions on the one connection. Each runs in one turn of the event loop, so nothing comes between check and
 * write. All of them throw StateUnwritable when the disk is full or the database is locked, and while they are refused;
 * nothing is stored then.
 */
export class Transactions {
  readonly #db: DatabaseSync
  readonly #prepare: () => void
  readonly #onCommit: () => void
  #open = false
  #afterCommit: (() => void)[] = []
  #refusal: StateUnwritable | undefined
  #lastFailure: { readonly error: StateUnwritable; readonly atMs: number } | undefined

  /**
   * `prepare` is called before each transaction and each lone write. It may write itself, and no rollback undoes that.
   * `onCommit` is called after each commit that somebody may rely on.
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

  /** Refuses each write with this error; undefined ends that. */
  refuse(refusal: StateUnwritable | undefined): void {
    this.#refusal = refusal
  }

  /** Commits all of `write`, or nothing if it throws. Inside another transaction it becomes a part of that. */
  commit<T>(write: () => T): T {
    return this.#open ? write() : this.#commit(write, this.#onCommit)
  }

  /** Commits all of `write`, or nothing, as {@link commit} does, but without a promise of durability. */
  writeTogether<T>(write: () => T): T {
    return this.#open ? write() : this.#commit(write, () => {})
  }

  /**
   * Commits one statement by itself, without a promise of durability. Inside a transaction it becomes a part of that.
   */
  writeAlone<T>(write: () => T): T {
    if (this.#open) return write()
    return this.#attempt(() => {
      this.#prepare()
      return write()
    })
  }

  /** Returns what `write` would return; then rolls everything back. */
  rehearse<T>(write: () => T): T {
    assert(!this.#open, 'a rehearsal inside a transaction')
    try {
      return this.#attempt(() => this.#within(write, 'ROLLBACK'))
    } finally {
      this.#afterCommit = []
    }
  }

  /** Calls back when the running transaction is committed, or at once if there is none. */
  afterCommit(callback: () => void): void {
    if (this.#open) this.#afterCommit.push(callback)
    else callback()
  }

  #commit<T>(write: () => T, committed: () => void): T {
    const result = this.#attempt(() => this.#within(write, 'COMMIT'))
    committed()
    for (const callback of this.#afterCommit.splice(0)) callback()
    return result
  }

  /** Runs a write. After a failure, others are not tried at once, because each may block the event loop. */
  #attempt<T>(write: () => T): T {
    if (this.#refusal !== undefined) throw this.#refusal
    const failure = this.#lastFailure
    if (failure !== undefined && performance.now() - failure.atMs < limits.stateRetryMs) throw failure.error
    try {
      return write()
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
      // SQLite has already rolled back if the disk is full or fails (sqlite.org/lang_transaction).
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    } finally {
      this.#open = false
    }
  }
}

/**
 * The records cannot be written now: the disk is full or fails, or another process has locked them. Nothing was stored.
 */
export class StateUnwritable extends HostFault {
  constructor(cause: unknown) {
    super('state_unwritable', 'writing to the state directory', { cause })
  }
}

/** Returns the fault of records of which a file was removed or replaced: what is written would end with the process. */
export const displacedFault = (name: string): StateUnwritable =>
  new StateUnwritable(
    new Error(
      `${name} was removed or replaced while the daemon runs, so changes would be lost: vmhostd doctor says what to do`,
    ),
  )

/** Words for SQLite's errors, by their primary code. */
const UNWRITABLE: ReadonlyMap<number | undefined, string> = new Map([
  [SQLITE_BUSY, 'another process has locked the database'],
  [SQLITE_LOCKED, 'another process has locked the database'],
  [SQLITE_READONLY, 'the database is read-only'],
  [SQLITE_IOERR, 'the disk failed'],
  [SQLITE_FULL, 'the disk is full'],
  [SQLITE_CANTOPEN, 'a file of the database cannot be opened'],
])

/** Turns an error of a write into a fault; any other error passes as it is. */
export function unwritableOr(error: unknown): unknown {
  const because = UNWRITABLE.get(primaryCodeOf(error))
  return because === undefined ? error : new StateUnwritable(new Error(because, { cause: error }))
}

/** Statements of a database, each prepared once. */
export class Statements {
  readonly #db: DatabaseSync
  readonly #prepared = new Map<string, StatementSync>()

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  of(text: string): StatementSync {
    let statement = this.#prepared.get(text)
    if (statement === undefined) {
      statement = this.#db.prepare(text)
      this.#prepared.set(text, statement)
    }
    return statement
  }

  /** Inserts a row. The names of columns are the code's own, never of a request. */
  insert(table: string, columns: Columns): void {
    const names = Object.keys(columns)
    const values = names.map((name) => `:${name}`)
    this.of(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${values.join(', ')})`).run(columns)
  }

  /** Sets columns of the row with this id. The names are those of {@link insert}. */
  update(table: string, id: string, columns: Columns): void {
    const settings = Object.keys(columns).map((name) => `${name} = :${name}`)
    this.of(`UPDATE ${table} SET ${settings.join(', ')} WHERE id = :id`).run({ ...columns, id })
  }
}

/** Values by the names of their columns. */
type Columns = Readonly<Record<string, SQLInputValue>>
