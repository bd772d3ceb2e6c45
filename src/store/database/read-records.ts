import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'

/** Reads records without changing them; they may be in use. Throws SQLite's error, or that of `read`. */
export function readRecords<T>(
  path: string | URL,
  read: (db: DatabaseSync) => T,
  busyMs: number = limits.backupBusyMs,
): T {
  const db = new DatabaseSync(path, { readOnly: true, timeout: busyMs })
  try {
    return read(db)
  } finally {
    db.close()
  }
}
