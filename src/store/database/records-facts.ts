import { existsSync, statSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'
import { hasColumn } from './columns.ts'
import { Meta } from './meta.ts'
import { SCHEMA_VERSION, schemaVersionOf } from './migrations.ts'
import { databaseIn, isDamage } from './open-database.ts'
import { readRecords } from './read-records.ts'
import { copiesIn } from './schema-copies.ts'
import { SQLITE_BUSY, SQLITE_CANTOPEN, SQLITE_PERM, primaryCodeOf } from './result-code.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { RecordsFact, RecordsFault } from '../../core/doctor/host-facts.ts'

/** Thrown for records that are there and cannot be read. */
export class RecordsUnread extends Error {
  override readonly name = 'RecordsUnread'
  readonly fault: RecordsFault

  constructor(path: string, fault: RecordsFault, cause: unknown) {
    super(`${path} ${WORDS[fault]}`, { cause })
    this.fault = fault
  }
}

const WORDS: Readonly<Record<RecordsFault, string>> = {
  damaged: 'is damaged',
  locked: 'is locked by another process',
  forbidden: 'cannot be opened by this user',
}

/** Faults beside damage, by the primary code of SQLite's error. */
const FAULTS: ReadonlyMap<number | undefined, RecordsFault> = new Map([
  [SQLITE_PERM, 'forbidden'],
  [SQLITE_BUSY, 'locked'],
  [SQLITE_CANTOPEN, 'forbidden'],
])

/**
 * Reads the records without changing them; the daemon may run. Undefined if there are none. Throws RecordsUnread, or
 * SQLite's error for another reason.
 */
export function readRecordsFacts(
  stateDirectory: string,
  busyMs: number = limits.backupBusyMs,
): RecordsFact | undefined {
  const facts = readIn(stateDirectory, busyMs, factsIn)
  return facts === undefined || facts.schemaVersion <= SCHEMA_VERSION
    ? facts
    : { ...facts, ...given({ copy: copiesIn(stateDirectory).find(isReadable)?.path }) }
}

/** Reads the ids of all VMs on record in the same way; an empty set if there are no records. */
export function readRecordedVms(
  stateDirectory: string,
  busyMs: number = limits.backupBusyMs,
): ReadonlySet<string> {
  const read = (db: DatabaseSync) =>
    new Set(
      db
        .prepare('SELECT id FROM vms')
        .all()
        .map(({ id }) => String(id)),
    )
  return readIn(stateDirectory, busyMs, read) ?? new Set()
}

function readIn<T>(stateDirectory: string, busyMs: number, read: (db: DatabaseSync) => T): T | undefined {
  const path = databaseIn(stateDirectory)
  try {
    // Unlike existsSync, this throws if the directory is not for this user.
    if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined
    return readRecords(nameOf(path), read, busyMs)
  } catch (error) {
    const fault = faultOf(error)
    throw fault === undefined ? error : new RecordsUnread(path, fault, error)
  }
}

function faultOf(error: unknown): RecordsFault | undefined {
  if (isDamage(error)) return 'damaged'
  const { code } = (error ?? {}) as { code?: unknown }
  return code === 'EACCES' || code === 'EPERM' ? 'forbidden' : FAULTS.get(primaryCodeOf(error))
}

const isReadable = ({ version }: { readonly version: number }): boolean => version <= SCHEMA_VERSION

function factsIn(db: DatabaseSync): RecordsFact {
  const schemaVersion = schemaVersionOf(db)
  // Another version may have no such table.
  const poolId = hasColumn(db, 'meta', 'value') ? new Meta(db).get('pool_id') : undefined
  return { schemaVersion, schemaVersionMax: SCHEMA_VERSION, ...given({ poolId }) }
}

/**
 * Returns how SQLite is to open the file. Without a log no process has it open, and SQLite would leave an empty log
 * behind, unless the file is said to be immutable (sqlite.org/uri).
 */
function nameOf(path: string): string | URL {
  if (existsSync(`${path}-wal`)) return path
  const url = pathToFileURL(path)
  url.searchParams.set('immutable', '1')
  return url
}
