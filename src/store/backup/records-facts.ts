import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'
import { Meta } from '../database/meta.ts'
import { SCHEMA_VERSION, schemaVersionOf } from '../database/migrations.ts'

/** Facts about the records of a state directory that decide whether this build can use them. */
export type RecordsFacts = {
  readonly schemaVersion: number
  /** The newest version that this build can read. */
  readonly schemaVersionMax: number
  /** The pool that the records are of; absent until a daemon has found one. */
  readonly poolId?: string
}

/** Reads the records without changing them; the daemon may run. Undefined if there are none. Throws SQLite's error. */
export function readRecordsFacts(stateDirectory: string): RecordsFacts | undefined {
  const path = join(stateDirectory, 'vmhostd.db')
  if (!existsSync(path)) return undefined
  const db = new DatabaseSync(nameOf(path), { readOnly: true, timeout: limits.backupBusyMs })
  try {
    const schemaVersion = schemaVersionOf(db)
    // Another version may have no such table.
    const hasMeta = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").get() !== undefined
    const poolId = hasMeta ? new Meta(db).get('pool_id') : undefined
    return {
      schemaVersion,
      schemaVersionMax: SCHEMA_VERSION,
      ...given({ poolId }),
    }
  } finally {
    db.close()
  }
}

/**
 * Returns how SQLite is to open the file. Without a log no process has it open, and SQLite would leave an empty log behind,
 * unless the file is said to be immutable (sqlite.org/uri).
 */
function nameOf(path: string): string | URL {
  if (existsSync(`${path}-wal`)) return path
  const url = pathToFileURL(path)
  url.searchParams.set('immutable', '1')
  return url
}
