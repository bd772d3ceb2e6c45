import { chmodSync, lstatSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'
import { SCHEMA_VERSION, migrate, schemaVersionOf } from './migrations.ts'
import {
  SQLITE_BUSY,
  SQLITE_CANTOPEN,
  SQLITE_CORRUPT,
  SQLITE_FULL,
  SQLITE_IOERR_SHMMAP,
  SQLITE_IOERR_SHMOPEN,
  SQLITE_IOERR_SHMSIZE,
  SQLITE_NOTADB,
  primaryCodeOf,
  resultCodeOf,
} from './result-code.ts'
import { keepSchemaCopy } from './schema-copies.ts'
import { unwritableOr } from './transactions.ts'

const OWNER_ONLY = 0o600

/** Errors of a disk without room for the index of the log: the disk is full, or that file cannot be opened. */
const WITHOUT_ROOM: ReadonlySet<number | undefined> = new Set([
  SQLITE_FULL,
  SQLITE_CANTOPEN,
  SQLITE_IOERR_SHMOPEN,
  SQLITE_IOERR_SHMSIZE,
  SQLITE_IOERR_SHMMAP,
])

/** The file is damaged, or is not a database. */
const DAMAGE: ReadonlySet<number | undefined> = new Set([SQLITE_CORRUPT, SQLITE_NOTADB])

/** Returns the path of the records of a state directory. Their log and its index lie beside them. */
export const databaseIn = (directory: string): string => join(directory, 'vmhostd.db')

/** Another daemon uses this state directory. */
export class StateDirectoryInUse extends Error {
  override readonly name = 'StateDirectoryInUse'
}

/**
 * Holds the state directory for this process until `release`, or until the process ends in any way. The lock is
 * SQLite's own file lock (POSIX record locks), which the kernel releases with the process.
 */
export function lockStateDirectory(directory: string): { release(): void } {
  const path = `${directory}/lock.db`
  makePrivate(path)
  const db = new DatabaseSync(path)
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE')
    // SQLite writes to an empty database when it locks it, but not to one that has a page. With a page, a full disk
    // does not prevent the lock.
    if (db.prepare('PRAGMA user_version').get()?.['user_version'] === 0) db.exec('PRAGMA user_version = 1')
    db.exec('BEGIN EXCLUSIVE')
  } catch (cause) {
    db.close()
    // A file that another vmhostd has locked is not read, so it is not found damaged.
    if (isDamage(cause))
      throw new Error(`${path} is damaged: remove it, because it has no records and is made again`, { cause })
    if (primaryCodeOf(cause) !== SQLITE_BUSY) throw unwritableOr(cause)
    throw new StateDirectoryInUse(
      `another vmhostd works on ${directory}: stop it first, or give this one its own state_directory`,
      { cause },
    )
  }
  return { release: () => db.close() }
}

/**
 * Makes a file that its owner alone can read, whatever the umask is. A user who can read the file of the lock can hold
 * the lock too, and then no daemon starts. A file that is there is not opened: a close would release a lock that this
 * process holds (fcntl_locking(2)).
 */
function makePrivate(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found !== undefined) {
    if (found.isFile() && (found.mode & 0o777) !== OWNER_ONLY) chmodSync(path, OWNER_ONLY)
    return
  }
  try {
    writeFileSync(path, '', { flag: 'wx', mode: OWNER_ONLY })
  } catch {
    // SQLite says why it cannot be made.
  }
}

export type OpenOptions = {
  /** Called before records of an earlier version are copied and changed, which may take minutes. */
  readonly onUpgrade?: () => void
}

/**
 * Opens or creates the database. On a full disk there may be no room for the index of the log, which is a separate
 * file. Then the index is in memory, and no other process can read the database (sqlite.org/wal, "Use of WAL Without
 * Shared-Memory"). Throws an error that says what to do if the file is damaged, or if another process keeps it locked.
 */
export function openDatabase(path: string, options: OpenOptions = {}): DatabaseSync {
  try {
    return openInMode(path, 'NORMAL', options)
  } catch (error) {
    if (primaryCodeOf(error) === SQLITE_BUSY)
      throw new Error(`another process has locked ${path}: end it, and start again`, { cause: error })
    if (!WITHOUT_ROOM.has(resultCodeOf(error))) throw damagedOr(path, error)
    return openAlone(path, options)
  }
}

/** Opens the database with the index of the log in memory. A file that cannot be opened in this way either is named. */
function openAlone(path: string, options: OpenOptions): DatabaseSync {
  try {
    return openInMode(path, 'EXCLUSIVE', options)
  } catch (error) {
    // The file, or its log, is a directory, a link to nothing, not for this user, or cannot be made.
    if (primaryCodeOf(error) === SQLITE_CANTOPEN)
      throw new Error(`${path} cannot be opened: ${whyNotOpened(path)}`, { cause: error })
    throw damagedOr(path, error)
  }
}

function whyNotOpened(path: string): string {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found !== undefined && !found.isFile()) return 'it must be a file, or absent'
  return `is there room for it and its -wal in ${dirname(path)}, and for more files (df -i)?`
}

/** Returns whether an error is of records that are damaged, and not of the disk or of another process. */
export function isDamage(error: unknown): boolean {
  return DAMAGE.has(primaryCodeOf(error))
}

/** Turns an error of records that are damaged into one that says what to do; any other error passes as it is. */
export function damagedOr(path: string, error: unknown): unknown {
  if (!isDamage(error)) return error
  return new Error(
    `${path} is damaged: put a backup back (vmhostd restore), or move it aside with its -wal and -shm, and recover the VMs from the pool (vmhostd recover)`,
    { cause: error },
  )
}

function openInMode(path: string, mode: 'NORMAL' | 'EXCLUSIVE', { onUpgrade }: OpenOptions): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: limits.databaseOpenBusyMs })
  try {
    // Signed URLs and user data are stored here. The write-ahead log gets its mode from this file.
    chmodSync(path, OWNER_ONLY)
    db.exec(
      `PRAGMA locking_mode = ${mode}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
       PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON`,
    )
    const version = schemaVersionOf(db)
    if (version > 0 && version < SCHEMA_VERSION) {
      onUpgrade?.()
      keepSchemaCopy(db, dirname(path))
    }
    migrate(db)
    db.exec(`PRAGMA busy_timeout = ${limits.databaseBusyMs}`)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}
