import { closeSync, fdatasync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'

/** fdatasync(2). */
export type Datasync = (fd: number) => Promise<void>

/**
 * Makes commits outlast a power failure without the event loop waiting for the disk. SQLite in WAL mode with
 * `synchronous=NORMAL` appends a commit to the log and flushes only before a checkpoint (sqlite.org/pragma); this flushes
 * the log besides, in the background, one flush for all commits that wait for it.
 *
 * A flush that failed is never tried again: the kernel may have dropped what it could not write, and would call the next
 * one a success (fsync(2), "EIO"). All later calls are rejected with that failure.
 */
export class WalFlush {
  readonly #path: string
  readonly #datasync: Datasync
  #log: number | undefined
  #commits = 0
  #flushed = 0
  #running: Promise<void> | undefined
  #failure: Error | undefined
  #closed = false

  /** @param path of the database; its log is `<path>-wal` */
  constructor(path: string, datasync: Datasync = promisify(fdatasync)) {
    this.#path = path
    this.#datasync = datasync
  }

  /** A transaction was committed that somebody may be promised. */
  noteCommit(): void {
    this.#commits += 1
  }

  /** Resolves when all that was committed before the call is on the disk; at once where it is, or the database is closed. */
  async flushed(): Promise<void> {
    const wanted = this.#commits
    while (this.#flushed < wanted) {
      if (this.#failure !== undefined) throw this.#failure
      // Closing the database takes its log into it, and flushes that.
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
    const covered = this.#commits
    try {
      this.#log ??= this.#open()
      await this.#datasync(this.#log)
      this.#flushed = covered
    } catch (cause) {
      this.#failure = new Error(`flushing ${this.#path}-wal; what was promised last may be lost`, { cause })
      throw this.#failure
    }
  }

  /** The log stays the same file for as long as the database is open. Its name is flushed too. */
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
