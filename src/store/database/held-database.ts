import { given } from '../../lib/given.ts'
import { Meta } from './meta.ts'
import { damagedOr, databaseIn, lockStateDirectory, openDatabase } from './open-database.ts'
import { OpenFiles } from './open-files.ts'
import { Revisions, firstNumber } from './revisions.ts'
import { removeUnfinishedCopies } from './schema-copies.ts'
import { LogEmptying, WalFlush } from './write-ahead-log.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { OpenOptions } from './open-database.ts'
import type { FlushOptions, LogClock } from './write-ahead-log.ts'

export type HoldOptions = FlushOptions &
  OpenOptions & {
    /**
     * The time, in milliseconds since the epoch. The numbers of a new store follow from it, so that they are above
     * those of a store that was lost; without it they begin at 0.
     */
    readonly nowMs?: number
    /** Lets the log be emptied later if another process reads it; without it, only a later commit empties it. */
    readonly after?: LogClock['after']
  }

/** The database of a state directory, with what belongs to it whatever its tables are. This process holds it alone. */
export class HeldDatabase {
  readonly path: string
  readonly db: DatabaseSync
  readonly meta: Meta
  readonly revisions: Revisions
  readonly flush: WalFlush
  readonly log: LogEmptying
  readonly #files: OpenFiles
  #closed = false
  readonly #lock: { release(): void }

  /** Opens or creates the database. Throws StateDirectoryInUse if another process has it. */
  constructor(directory: string, { nowMs = 0, onUpgrade, after, ...flushOptions }: HoldOptions) {
    this.path = databaseIn(directory)
    this.#lock = lockStateDirectory(directory)
    let db: DatabaseSync | undefined
    try {
      removeUnfinishedCopies(directory)
      db = openDatabase(this.path, given({ onUpgrade }))
      this.db = db
      this.meta = new Meta(db)
      this.#files = new OpenFiles(db, this.path)
      this.flush = new WalFlush(this.path, flushOptions)
      this.log = new LogEmptying(db, given({ after }))
      this.revisions = new Revisions({
        reserved: () => Number(this.meta.get('revisions') ?? firstNumber(nowMs)),
        reserve: (upTo) => {
          this.meta.set('revisions', String(upTo))
          this.flush.noteCommit()
        },
      })
    } catch (error) {
      db?.close()
      this.#lock.release()
      throw damagedOr(this.path, error)
    }
  }

  /** Returns the name of a file of the database that is not at its place; undefined if all are. */
  displaced(): string | undefined {
    return this.#closed ? undefined : this.#files.displaced()
  }

  close(): void {
    this.#closed = true
    this.flush.close()
    this.log.close()
    this.db.close()
    this.#lock.release()
  }
}
