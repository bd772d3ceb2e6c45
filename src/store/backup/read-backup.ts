import { existsSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { SCHEMA_VERSION, schemaVersionOf } from '../database/migrations.ts'
import { BACKUP_FORMAT } from './write-backup.ts'
import type { BackupAbout, KeptFile } from './write-backup.ts'

/**
 * The description of itself that a file to put back has. A copy from before a change of the schema has no `about` and
 * no files.
 */
export type BackupContent = {
  readonly schemaVersion: number
  readonly about?: BackupAbout
  readonly files: readonly KeptFile[]
}

/** Reads and checks a backup, or a copy from before a change of the schema. Throws an error for the operator. */
export function readBackup(path: string): BackupContent {
  if (!existsSync(path)) throw new Error(`${path} is not there`)
  if (!statSync(path).isFile()) throw new Error(`${path} is not a file: name a backup`)
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    const [result] = Object.values(db.prepare('PRAGMA quick_check(1)').get() ?? {})
    if (result !== 'ok') throw new Error(`it is damaged: ${String(result)}`)
    const tables = new Set(
      db
        .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table'`)
        .all()
        .map(({ name }) => name),
    )
    if (!tables.has('vms') || !tables.has('meta')) throw new Error('it has no records of vmhostd')
    const schemaVersion = schemaVersionOf(db)
    if (schemaVersion > SCHEMA_VERSION)
      throw new Error(
        `its schema version is ${schemaVersion}, and this build knows up to ${SCHEMA_VERSION}: use the vmhostd that wrote it, or a newer one`,
      )
    if (!tables.has('backup_about')) return { schemaVersion, files: [] }
    return { schemaVersion, about: aboutIn(db), files: filesIn(db) }
  } catch (cause) {
    throw new Error(`${path} cannot be put back`, { cause })
  } finally {
    db.close()
  }
}

function aboutIn(db: DatabaseSync): BackupAbout {
  const { format, made_at_ms, version, host_id } = db.prepare('SELECT * FROM backup_about').get() ?? {}
  if (format !== BACKUP_FORMAT)
    throw new Error(`its format is ${String(format)}, and this build knows ${BACKUP_FORMAT}`)
  return { madeAtMs: Number(made_at_ms), version: String(version), hostId: String(host_id) }
}

const filesIn = (db: DatabaseSync): readonly KeptFile[] =>
  db
    .prepare('SELECT path, mode, content FROM backup_files ORDER BY path')
    .all()
    .map(({ path, mode, content }) => ({
      path: String(path),
      mode: Number(mode),
      content: content as Uint8Array,
    }))
