import { statSync } from 'node:fs'
import { basename } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'

/**
 * The files of an open database. A file that is removed stays open until its process ends, so SQLite goes on writing
 * to it, and nothing fails.
 */
export class OpenFiles {
  readonly #identities: ReadonlyMap<string, string>

  /** @param path of a database that this process has just opened as `db` */
  constructor(db: DatabaseSync, path: string) {
    const { locking_mode: mode } = db.prepare('PRAGMA locking_mode').get() ?? {}
    // The index of the log is in memory if its disk had no room, and a file of an earlier process may be there.
    const ends = mode === 'exclusive' ? ['', '-wal'] : ['', '-wal', '-shm']
    const found = ends.map((end) => [`${path}${end}`, identityAt(`${path}${end}`)] as const)
    this.#identities = new Map(found.filter((one): one is [string, string] => one[1] !== undefined))
  }

  /** Returns the name of the first file that is gone, or has another one in its place; undefined if there is none. */
  displaced(): string | undefined {
    for (const [path, identity] of this.#identities) if (isOther(path, identity)) return basename(path)
    return undefined
  }
}

function isOther(path: string, identity: string): boolean {
  try {
    return identityAt(path) !== identity
  } catch {
    // A disk that fails for a moment shows nothing. If it goes on, writes fail.
    return false
  }
}

/** Returns what no other file has while this one is open; undefined if there is no file. */
export function identityAt(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found === undefined ? undefined : `${found.dev}:${found.ino}`
}
