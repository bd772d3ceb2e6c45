import { DatabaseSync } from 'node:sqlite'
import { unwritableOr } from './state-unwritable.ts'

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
