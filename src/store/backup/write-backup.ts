import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'
import { copyDatabase } from '../database/schema-copies.ts'

/** Raised with every change of the two tables that an older vmhostd must not read past. */
export const BACKUP_FORMAT = 1

/** Says of what a backup is. */
export type BackupAbout = {
  readonly madeAtMs: number
  /** Version of the vmhostd that made it. */
  readonly version: string
  readonly hostId: string
}

/** A file of the host as it was. */
export type KeptFile = { readonly path: string; readonly mode: number; readonly content: Uint8Array }

/**
 * Writes the records of a state directory, with files of the host, into one file of mode 0600. The daemon may run: SQLite
 * reads one moment of its database, and keeps no writer waiting. The file has its name only when it is whole and on the
 * disk. Throws an error for the operator.
 */
export function writeBackup(
  stateDirectory: string,
  target: string,
  { about, files }: { readonly about: BackupAbout; readonly files: readonly KeptFile[] },
): void {
  const source = `${stateDirectory}/vmhostd.db`
  if (!existsSync(source)) throw new Error(`${source} is not there: this host has no records yet`)
  const db = new DatabaseSync(source, { readOnly: true, timeout: limits.backupBusyMs })
  try {
    copyDatabase(db, target, (unnamed) => addTables(unnamed, about, files))
  } catch (cause) {
    throw new Error(`the records of ${source} cannot be copied to ${target}`, { cause })
  } finally {
    db.close()
  }
}

function addTables(
  path: string,
  { madeAtMs, version, hostId }: BackupAbout,
  files: readonly KeptFile[],
): void {
  const db = new DatabaseSync(path)
  try {
    db.exec(`
      PRAGMA journal_mode = DELETE;
      BEGIN;
      CREATE TABLE backup_about (format INTEGER, made_at_ms INTEGER, version TEXT, host_id TEXT) STRICT;
      CREATE TABLE backup_files (path TEXT PRIMARY KEY, mode INTEGER NOT NULL, content BLOB NOT NULL) STRICT;`)
    db.prepare('INSERT INTO backup_about VALUES (?, ?, ?, ?)').run(BACKUP_FORMAT, madeAtMs, version, hostId)
    const insert = db.prepare('INSERT INTO backup_files VALUES (?, ?, ?)')
    for (const file of files) insert.run(file.path, file.mode, file.content)
    db.exec('COMMIT')
  } finally {
    db.close()
  }
}
