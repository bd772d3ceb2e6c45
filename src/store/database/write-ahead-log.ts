import { closeSync, fdatasync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import type { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'

/** fdatasync(2). */
export type Datasync = (fd: number) => Promise<void>

export type FlushOptions = {
  readonly datasync?: Datasync
  /** Called once, when a flush has failed while the database is open. The process should end then. */
  readonly onFlushFailed?: (error: Error) => void
}

/**
 * Makes commits survive a power failure, without blocking the event loop. With `synchronous=NORMAL`, SQLite in WAL mode
 * appends a commit to the log and flushes only before a checkpoint (sqlite.org/pragma). This class also flushes the log
 * in the background, one flush for all commits that wait for it.
 *
 * A failed flush is never tried again: the kernel may have dropped what it could not write, and would report the next
 * flush as a success (fsync(2), "EIO"). All later calls are rejected with that failure.
 */
export class WalFlush {
  readonly #path: string
  readonly #datasync: Datasync
  readonly #onFailed: (error: Error) => void
  #log: number | undefined
  /** Numbers of writes, and how many of them are on the disk. `others`: writes that only some readers wait for. */
  #written = { commits: 0, others: 0 }
  #flushed = { commits: 0, others: 0 }
  #running: Promise<void> | undefined
  #failure: Error | undefined
  #closed = false

  /** @param path of the database; its log is `<path>-wal` */
  constructor(
    path: string,
    { datasync = promisify(fdatasync), onFlushFailed = () => {} }: FlushOptions = {},
  ) {
    this.#path = path
    this.#datasync = datasync
    this.#onFailed = onFlushFailed
  }

  /** Notes a commit that somebody may rely on. */
  noteCommit(): void {
    this.#written.commits += 1
  }

  /** Notes a write that only callers of {@link flushedAll} wait for. */
  noteWrite(): void {
    this.#written.others += 1
  }

  /**
   * Resolves when everything committed before the call is on the disk; at once if it is, or if the database is closed.
   */
  flushed(): Promise<void> {
    return this.#until({ ...this.#written, others: 0 })
  }

  /** Does the same as {@link flushed}, and waits for all noted writes too. */
  flushedAll(): Promise<void> {
    return this.#until({ ...this.#written })
  }

  async #until(wanted: Readonly<{ commits: number; others: number }>): Promise<void> {
    while (this.#flushed.commits < wanted.commits || this.#flushed.others < wanted.others) {
      if (this.#failure !== undefined) throw this.#failure
      // Closing the database moves its log into the database and flushes it.
      if (this.#closed) return
      this.#running ??= this.#flush().finally(() => {
        this.#running = undefined
        if (this.#closed) this.#release()
      })
      await this.#running
    }
  }

  close(): void {
    this.#closed = true
    if (this.#running === undefined) this.#release()
  }

  async #flush(): Promise<void> {
    const covered = { ...this.#written }
    try {
      this.#log ??= this.#open()
      await this.#datasync(this.#log)
      this.#flushed = covered
    } catch (cause) {
      this.#failure = new Error(`flushing ${this.#path}-wal; what was promised last may be lost`, { cause })
      if (!this.#closed) this.#onFailed(this.#failure)
      throw this.#failure
    }
  }

  /** Opens the log. It stays the same file while the database is open. Its name is flushed too. */
  #open(): number {
    const log = openSync(`${this.#path}-wal`, 'r')
    const directory = openSync(dirname(this.#path), 'r')
    fsyncSync(directory)
    closeSync(directory)
    return log
  }

  #release(): void {
    if (this.#log !== undefined) closeSync(this.#log)
    this.#log = undefined
  }
}

export type LogClock = {
  readonly now: () => number
  /** Calls back once after `ms`; the returned function cancels. */
  readonly after: (ms: number, callback: () => void) => () => void
}

/**
 * Removes deleted content from the write-ahead log, which otherwise keeps it until it is overwritten. The log stays the
 * same file. Before it is emptied, its content is in the database and flushed (sqlite.org/pragma, wal_checkpoint).
 *
 * The log cannot be emptied while another connection reads the database. Then it is tried again after a pause, and not
 * at each commit, because a try may block the event loop for as long as SQLite waits for readers.
 */
export class LogEmptying {
  readonly #db: DatabaseSync
  readonly #now: () => number
  readonly #after: LogClock['after']
  /** True at first, because an earlier process may have ended between a commit and the emptying. */
  #isDue = true
  #notBeforeMs = -Infinity
  #cancel = (): void => {}

  /**
   * @param at.now milliseconds of a monotonic clock
   * @param at.after ends a pause; without it, only later commits try again
   */
  constructor(
    db: DatabaseSync,
    { now = () => performance.now(), after = () => () => {} }: Partial<LogClock> = {},
  ) {
    this.#db = db
    this.#now = now
    this.#after = after
  }

  /** Empties the log. Call it outside of a transaction. */
  empty(): void {
    this.#isDue = true
    this.emptyWhereDue()
  }

  emptyWhereDue(): void {
    if (!this.#isDue || this.#now() < this.#notBeforeMs) return
    this.#cancel()
    try {
      // The first waits for no reader, and shows whether one holds a part of the log.
      this.#isDue = !(this.#checkpoint('PASSIVE') && this.#checkpoint('TRUNCATE'))
    } catch {
      // The commit itself is done. If the disk fails, callers that wait for a flush get the error.
    }
    if (this.#isDue) this.#pause()
  }

  /** Ends the tries. Call it before the database is closed. */
  close(): void {
    this.#cancel()
  }

  /** An idle host commits nothing for hours, so a timer of its clock ends the pause. */
  #pause(): void {
    this.#notBeforeMs = this.#now() + limits.stateRetryMs
    this.#cancel = this.#after(limits.stateRetryMs, () => {
      this.#notBeforeMs = -Infinity
      this.emptyWhereDue()
    })
  }

  /** Returns whether the database has all of the log, and with TRUNCATE, whether the log is empty. */
  #checkpoint(mode: 'PASSIVE' | 'TRUNCATE'): boolean {
    const { busy, log, checkpointed } = this.#db.prepare(`PRAGMA wal_checkpoint(${mode})`).get() ?? {}
    return busy === 0 && log === checkpointed
  }
}
