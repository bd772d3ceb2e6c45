import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'
import { schemaVersionOf } from './migrations.ts'

/** Returns the directory of the copies; it lies beside the database. */
export const schemaCopiesOf = (stateDirectory: string): string => join(stateDirectory, 'copies')

/** Returns the path of the copy of a database that had this version of the schema. */
export const schemaCopyPath = (stateDirectory: string, version: number): string =>
  join(schemaCopiesOf(stateDirectory), `schema-${version}.db`)

/**
 * Copies a database whose schema is about to change, so that the previous package can be used again. The copy is on the
 * disk when this returns. It replaces an earlier copy of the same version. Besides, copies of the newest versions are
 * kept, `limits.schemaCopiesMax` in all. Throws an error for the operator; then the schema must stay as it is.
 */
export function keepSchemaCopy(db: DatabaseSync, stateDirectory: string): void {
  const path = schemaCopyPath(stateDirectory, schemaVersionOf(db))
  try {
    mkdirSync(dirname(path), { recursive: true })
    chmodSync(dirname(path), 0o700)
    copyDatabase(db, path)
    const others = copiesIn(stateDirectory).filter((copy) => copy.path !== path)
    for (const old of others.slice(limits.schemaCopiesMax - 1)) rmSync(old.path)
  } catch (cause) {
    throw new Error(`the records cannot be copied to ${path} before their schema changes: make room there`, {
      cause,
    })
  }
}

/** Returns the copies that are kept, of the newest schema first. */
export function copiesIn(
  stateDirectory: string,
): readonly { readonly version: number; readonly path: string }[] {
  return namesIn(stateDirectory)
    .map((name) => Number(/^schema-(\d+)\.db$/.exec(name)?.[1]))
    .filter((version) => Number.isSafeInteger(version))
    .toSorted((a, b) => b - a)
    .map((version) => ({ version, path: schemaCopyPath(stateDirectory, version) }))
}

function namesIn(stateDirectory: string): readonly string[] {
  try {
    return readdirSync(schemaCopiesOf(stateDirectory))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/**
 * Copies the records of an open database whose files were removed or replaced. Nothing else has them when its process
 * ends. Returns the path of the copy. Throws an error for the operator.
 */
export function keepOpenRecords(db: DatabaseSync, stateDirectory: string, nowMs: number): string {
  const path = join(schemaCopiesOf(stateDirectory), `still-open-${timeInName(nowMs)}.db`)
  try {
    mkdirSync(dirname(path), { recursive: true })
    chmodSync(dirname(path), 0o700)
    copyDatabase(db, path)
    return path
  } catch (cause) {
    throw new Error(`the records cannot be copied to ${path}`, { cause })
  }
}

/** Returns the paths of copies of records whose files were removed or replaced, the newest first. */
export const openRecordsIn = (stateDirectory: string): readonly string[] =>
  namesIn(stateDirectory)
    .filter((name) => /^still-open-[\dTZ]+\.db$/.test(name))
    .toSorted()
    .toReversed()
    .map((name) => join(schemaCopiesOf(stateDirectory), name))

/** Returns a time of day as it stands in the name of a copy. */
export const timeInName = (nowMs: number): string => new Date(nowMs).toISOString().replace(/[-:]|\.\d+/g, '')

/**
 * Removes copies that a killed process left unfinished. Call it with the lock of the state directory, so that nothing
 * makes one meanwhile.
 */
export function removeUnfinishedCopies(stateDirectory: string): void {
  const directory = schemaCopiesOf(stateDirectory)
  if (!existsSync(directory)) return
  try {
    for (const entry of readdirSync(directory, { withFileTypes: true }))
      if (entry.isFile() && UNFINISHED.test(entry.name)) rmSync(join(directory, entry.name), { force: true })
  } catch {
    // Such a file only takes room. A disk that fails must not keep the daemon from starting.
  }
}

const UNFINISHED = /^(?:schema-\d+|(?:before-restore|still-open)-[\dTZ-]+)\.db(?:-wal)?\.new$/

/**
 * Writes what a database holds at this moment into one file of mode 0600, which takes its name only when it is on the
 * disk. Another process may write to the database meanwhile. `edit` changes the copy before that.
 */
export function copyDatabase(
  db: DatabaseSync,
  path: string,
  edit: (unnamed: string) => void = () => {},
): void {
  const unnamed = `${path}.new`
  rmSync(unnamed, { force: true })
  // SQLite fills an empty file that is there, and keeps its mode (sqlite.org/lang_vacuum).
  closeSync(openSync(unnamed, 'wx', 0o600))
  try {
    db.prepare('VACUUM INTO ?').run(unnamed)
    edit(unnamed)
    renameDurably(unnamed, path)
  } catch (error) {
    rmSync(unnamed, { force: true })
    throw error
  }
}

/** Copies a file, with mode 0600. The copy takes its name only when it is on the disk. */
export function copyFile(from: string, to: string): void {
  const unnamed = `${to}.new`
  rmSync(unnamed, { force: true })
  const source = openSync(from, 'r')
  try {
    // Not copyFileSync: it sets the mode of its target, which some file systems refuse.
    copyBytes(source, unnamed)
    renameDurably(unnamed, to)
  } catch (error) {
    rmSync(unnamed, { force: true })
    throw error
  } finally {
    closeSync(source)
  }
}

function copyBytes(source: number, to: string): void {
  const target = openSync(to, 'wx', 0o600)
  try {
    const buffer = Buffer.alloc(COPY_BYTES)
    for (let length = readSync(source, buffer); length > 0; length = readSync(source, buffer))
      for (let done = 0; done < length;) done += writeSync(target, buffer, done, length - done)
  } finally {
    closeSync(target)
  }
}

const COPY_BYTES = 1024 * 1024

/** Gives a file another name; file and name are on the disk when this returns. */
export function renameDurably(from: string, to: string, flush: Flush = flushPath): void {
  flush(from)
  renameSync(from, to)
  flush(dirname(to))
}

/** A function that returns when a file or directory is on the disk. Throws if it cannot be written. */
export type Flush = (path: string) => void

/** Flushes a file or directory to the disk (fsync(2)). */
export const flushPath: Flush = (path) => {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
