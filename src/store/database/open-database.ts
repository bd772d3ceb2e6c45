import { chmodSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'
import { SCHEMA_VERSION, migrate, schemaVersionOf } from './migrations.ts'
import { keepSchemaCopy } from './schema-copies.ts'
import { StateUnwritable, unwritableOr } from './transactions.ts'

/** Another connection holds the lock (sqlite.org/rescode). */
const SQLITE_BUSY = 5

/** Another daemon uses this state directory. */
export class StateDirectoryInUse extends Error {
  override readonly name = 'StateDirectoryInUse'
}

/**
 * Holds the state directory for this process until `release`, or until the process ends in any way. The lock is
 * SQLite's own file lock (POSIX record locks), which the kernel releases with the process.
 */
export function lockStateDirectory(directory: string): { release(): void } {
  const db = new DatabaseSync(`${directory}/lock.db`)
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE')
    // SQLite writes to an empty database when it locks it, but not to one that has a page. With a page, a full disk
    // does not prevent the lock.
    if (db.prepare('PRAGMA user_version').get()?.['user_version'] === 0) db.exec('PRAGMA user_version = 1')
    db.exec('BEGIN EXCLUSIVE')
  } catch (cause) {
    db.close()
    if ((cause as { errcode?: number }).errcode !== SQLITE_BUSY) throw unwritableOr(cause)
    throw new StateDirectoryInUse(
      `another vmhostd works on ${directory}: stop it first, or give this one its own state_directory`,
      { cause },
    )
  }
  return { release: () => db.close() }
}

/**
 * Opens or creates the database. On a full disk there may be no room for the index of the log, which is a separate
 * file. Then the index is in memory, and no other process can read the database (sqlite.org/wal, "Use of WAL Without
 * Shared-Memory").
 */
export function openDatabase(path: string): DatabaseSync {
  try {
    return openInMode(path, 'NORMAL')
  } catch (error) {
    if (!(unwritableOr(error) instanceof StateUnwritable)) throw error
    return openInMode(path, 'EXCLUSIVE')
  }
}

function openInMode(path: string, mode: 'NORMAL' | 'EXCLUSIVE'): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: limits.databaseBusyMs })
  try {
    // Signed URLs and user data are stored here. The write-ahead log gets its mode from this file.
    chmodSync(path, 0o600)
    db.exec(
      `PRAGMA locking_mode = ${mode}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
       PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON`,
    )
    const version = schemaVersionOf(db)
    if (version > 0 && version < SCHEMA_VERSION) keepSchemaCopy(db, dirname(path))
    migrate(db)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}
