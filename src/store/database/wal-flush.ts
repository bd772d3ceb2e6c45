import { closeSync, fdatasync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'

/** fdatasync(2). */
export type Datasync = (fd: number) => Promise<void>

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

  /** Notes a commit that somebody may rely on. */
  noteCommit(): void {
    this.#commits += 1
  }

  /**
   * Resolves when everything committed before the call is on the disk; at once if it is, or if the database is closed.
   */
  async flushed(): Promise<void> {
    const wanted = this.#commits
    while (this.#flushed < wanted) {
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
