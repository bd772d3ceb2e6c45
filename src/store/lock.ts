import { DatabaseSync } from 'node:sqlite'

/** Another daemon works on this state directory. */
export class StateDirectoryInUse extends Error {
  override readonly name = 'StateDirectoryInUse'
}

/**
 * Holds the state directory for this process until `release`, or until the process ends however it ends: the lock is
 * SQLite's own file lock (POSIX record locks), which the kernel drops with the process.
 */
export function lockStateDirectory(directory: string): { release(): void } {
  const db = new DatabaseSync(`${directory}/lock.db`)
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    db.close()
    throw new StateDirectoryInUse(
      `another vmhostd works on ${directory}: stop it first, or give this one its own state_directory`,
      { cause },
    )
  }
  return { release: () => db.close() }
}
