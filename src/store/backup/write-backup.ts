import { existsSync, mkdirSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'
import {
  StateDirectoryInUse,
  damagedOr,
  databaseIn,
  isDamage,
  lockStateDirectory,
} from '../database/open-database.ts'
import { SQLITE_FULL, primaryCodeOf } from '../database/result-code.ts'
import { copyDatabase, copyFile, openRecordsIn } from '../database/schema-copies.ts'
import { StateUnwritable } from '../database/transactions.ts'
import { readRecords } from '../database/read-records.ts'

/** Format of a backup. Raise it with every change of the two tables that older versions cannot read. */
export const BACKUP_FORMAT = 1

/** Describes a backup. */
export type BackupAbout = {
  readonly madeAtMs: number
  /** Version of the vmhostd that made it. */
  readonly version: string
  readonly hostId: string
}

/** A file of the host as it was. */
export type KeptFile = { readonly path: string; readonly mode: number; readonly content: Uint8Array }

/**
 * Writes the records of a state directory, with files of the host, into one file of mode 0600. The daemon may run:
 * SQLite reads one moment of its database, and keeps no writer waiting. A reader keeps the log of the database from
 * being emptied, and the target may hang. So the copy is made beside the records, and goes to the target when nothing
 * reads them any more. The file has its name only when it is whole and on the disk. Throws an error for the operator.
 */
export function writeBackup(
  stateDirectory: string,
  target: string,
  { about, files }: { readonly about: BackupAbout; readonly files: readonly KeptFile[] },
): void {
  const source = databaseIn(stateDirectory)
  if (!existsSync(source)) throw new Error(`${source} is not there: ${whyAbsent(stateDirectory)}`)
  const copyTo = (path: string): void =>
    readRecords(source, (db) => copyDatabase(db, path, (unnamed) => addTables(unnamed, about, files)))
  try {
    const copy = hasRoomBeside(source, stateDirectory)
      ? copyBeside(join(stateDirectory, BESIDE), copyTo)
      : undefined
    // A log that grows while the target hangs has little room then.
    if (copy === undefined) return copyTo(target)
    try {
      copyFile(copy.path, target)
    } finally {
      copy.remove()
    }
  } catch (cause) {
    if (isDamage(cause)) throw damagedOr(source, cause)
    throw new Error(`the records of ${source} cannot be copied to ${target}`, { cause })
  }
}

function whyAbsent(stateDirectory: string): string {
  const [copy] = openRecordsIn(stateDirectory)
  return copy === undefined
    ? 'this host has no records yet, or they were removed'
    : `it was removed under a daemon, which kept its records in ${copy}; vmhostd doctor says what to do`
}

/**
 * The directory of the state directory where a backup is made. Its lock stays there, and the copy of a backup that was
 * killed, until the next one.
 */
const BESIDE = 'backup.new'

/** Returns whether a copy of the records leaves the daemon room in the state directory. */
function hasRoomBeside(source: string, stateDirectory: string): boolean {
  const { bavail, bsize } = statfsSync(stateDirectory)
  const bytes = readRecords(source, (db) => {
    const pragma = (name: string): number => Number(db.prepare(`PRAGMA ${name}`).get()?.[name])
    return (pragma('page_count') - pragma('freelist_count')) * pragma('page_size')
  })
  return bavail * bsize - bytes >= limits.backupSpareBytes
}

type Copy = { readonly path: string; remove(): void }

/** Makes the copy in a directory that only one backup has at a time; undefined if its disk is full or read-only. */
function copyBeside(directory: string, copyTo: (path: string) => void): Copy | undefined {
  const folder = join(directory, 'copy')
  let lock: ReturnType<typeof lockStateDirectory> | undefined
  const remove = (): void => {
    if (lock !== undefined) rmSync(folder, { recursive: true, force: true })
    lock?.release()
  }
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    lock = lockStateDirectory(directory)
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder)
    const path = databaseIn(folder)
    copyTo(path)
    return { path, remove }
  } catch (error) {
    remove()
    if (isWithoutRoom(error)) return undefined
    if (!(error instanceof StateDirectoryInUse)) throw error
    throw new Error(`another backup is at work in ${directory}: wait for it, or end it`, { cause: error })
  }
}

/** Returns whether an error is of a disk that is full or read-only. */
export function isWithoutRoom(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: string }
  return (
    error instanceof StateUnwritable ||
    primaryCodeOf(error) === SQLITE_FULL ||
    ['ENOSPC', 'EDQUOT', 'EROFS'].includes(code ?? '')
  )
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
