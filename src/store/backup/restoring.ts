import { chmodSync, existsSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'
import { Meta } from '../database/meta.ts'
import { damagedOr, isDamage, lockStateDirectory } from '../database/open-database.ts'
import { SCHEMA_VERSION, schemaVersionOf } from '../database/migrations.ts'
import { firstNumber } from '../database/revisions.ts'
import {
  copyDatabase,
  copyFile,
  flushPath,
  removeUnfinishedCopies,
  renameDurably,
  schemaCopiesOf,
} from '../database/schema-copies.ts'
import { KEPT_AFTER } from '../events/event-table.ts'
import { Store } from '../store.ts'
import { noteDeparted } from '../migration/departed.ts'
import { leaveOut } from './keep-departed.ts'
import { keepMaintenance, maintenanceAfter, readMaintenanceOf } from './maintenance-kept.ts'
import { readReplaced, revisionsIn } from './replaced-records.ts'
import { recordedUserIds, reserveUserIds } from '../vm/user-ids.ts'
import { BACKUP_FORMAT } from './write-backup.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import type { UserIdRange } from '../vm/user-ids.ts'
import type { Flush } from '../database/schema-copies.ts'
import type { MaintenanceAfter } from './maintenance-kept.ts'
import type { ReplacedRecords } from './replaced-records.ts'
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

/** Records of a backup, opened in a directory of their own. Nothing of the present state changes before `putBack`. */
export class Restoring {
  readonly #stateDirectory: string
  readonly #directory: string
  readonly store: Store
  #isClosed = false
  #lock: { release(): void } | undefined

  /**
   * Copies the records and lifts them to this build's schema. `path` may be a database in use.
   *
   * @param directory for the copy; it is emptied, and must be on the file system of the state directory
   * @param locks whether to hold the state directory from before that until {@link remove}.
   * Throws StateDirectoryInUse if
   *   the daemon runs, or another process puts records back; its copy stays.
   */
  constructor(
    path: string,
    at: { readonly stateDirectory: string; readonly directory: string; readonly locks?: boolean },
    userIds: UserIdRange,
  ) {
    this.#stateDirectory = at.stateDirectory
    this.#directory = at.directory
    if (at.locks === true) this.#hold()
    try {
      this.store = copiedStore(path, at.directory, userIds)
    } catch (error) {
      rmSync(at.directory, { recursive: true, force: true })
      this.#lock?.release()
      throw error
    }
  }

  /** Returns the state of the host that {@link putBack} stores. */
  maintenanceAfter(): MaintenanceAfter {
    const [present, file] = [this.#stateDirectory, this.#directory].map((directory) =>
      readMaintenanceOf(join(directory, DATABASE)),
    )
    return maintenanceAfter(present, file)
  }

  /**
   * Replaces the records of the state directory, except for VMs to leave out, which have no record afterwards. The
   * present records are kept in `copies/before-restore-TIME.db`. Throws StateDirectoryInUse if the daemon runs. If
   * the disk does not take the new records, or another process keeps reading the present ones, those stay as they are,
   * and no copy of them is left.
   *
   * A user id that the host shows, that the present records have or that a VM to leave out has goes to no new VM.
   *
   * @param options.userIdsOnHost of VMs that get no record
   * @returns where the present records are kept; undefined if there are none
   */
  putBack(
    leftOut: readonly VmId[],
    nowMs: number,
    { userIdsOnHost = [], flush = flushPath }: PutBackOptions = {},
  ): string | undefined {
    this.#close()
    this.#hold()
    try {
      const present = join(this.#stateDirectory, DATABASE)
      const kept = keepPresent(present, this.#stateDirectory, nowMs)
      const restored = join(this.#directory, DATABASE)
      try {
        complete(restored, { leftOut, userIdsOnHost, replaced: kept?.replaced, nowMs })
        flush(restored)
        // The present records stay whole if the replacement ends between the next two steps.
        foldLog(present)
      } catch (error) {
        // The present records stay, with their log. Copies of each refused try would fill the disk.
        if (kept !== undefined) for (const end of ['', '-wal']) rmSync(`${kept.path}${end}`, { force: true })
        throw error
      }
      for (const end of ['-wal', '-shm']) rmSync(`${present}${end}`, { force: true })
      renameDurably(restored, present, flush)
      return kept?.path
    } finally {
      this.remove()
    }
  }

  /** Removes the copy, unless it was put back, and releases the state directory. */
  remove(): void {
    this.#close()
    rmSync(this.#directory, { recursive: true, force: true })
    this.#lock?.release()
    this.#lock = undefined
  }

  #hold(): void {
    this.#lock ??= lockStateDirectory(this.#stateDirectory)
  }

  #close(): void {
    if (!this.#isClosed) this.store.close()
    this.#isClosed = true
  }
}

const DATABASE = 'vmhostd.db'

/** Opens a copy of records in a directory, which is emptied before. */
function copiedStore(path: string, directory: string, userIds: UserIdRange): Store {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const copy = join(directory, DATABASE)
  const from = new DatabaseSync(path, { readOnly: true, timeout: limits.backupBusyMs })
  try {
    copyDatabase(from, copy)
  } catch (error) {
    throw damagedOr(path, error)
  } finally {
    from.close()
  }
  edit(copy, (db) => {
    db.exec('DROP TABLE IF EXISTS backup_about; DROP TABLE IF EXISTS backup_files')
  })
  try {
    return new Store(directory, userIds)
  } catch (cause) {
    throw new Error(`the records of ${path} cannot be opened`, { cause })
  }
}

type PutBackOptions = { readonly userIdsOnHost?: readonly UserId[]; readonly flush?: Flush }

type Completion = {
  readonly leftOut: readonly VmId[]
  readonly userIdsOnHost: readonly UserId[]
  readonly replaced: ReplacedRecords | undefined
  readonly nowMs: number
}

/** Brings into records that are put back what stays of those that they replace. */
function complete(restored: string, { leftOut, userIdsOnHost, replaced, nowMs }: Completion): void {
  edit(restored, (db) => {
    const userIds = [...recordedUserIds(db), ...(replaced?.userIds ?? []), ...userIdsOnHost]
    leaveOut(db, leftOut)
    reserveUserIds(db, userIds)
    for (const departure of replaced?.releases ?? []) noteDeparted(db, departure)
    const given = Math.max(revisionsIn(db), replaced?.revisions ?? 0)
    const first = Math.max(given + limits.revisionsSkippedByRestore, firstNumber(nowMs))
    // What readers know by earlier numbers is another history.
    const meta = new Meta(db)
    for (const key of ['revisions', KEPT_AFTER]) meta.set(key, String(first))
    // The guest may have been stopped since, by its controller.
    db.exec(
      "UPDATE vms SET launch = json_set(launch, '$.endsQuietly', json('true')) WHERE json_valid(launch)",
    )
    keepMaintenance(db, replaced?.maintenance, { nowMs, revision: first })
    db.exec('PRAGMA journal_mode = DELETE')
  })
}

/**
 * Moves the log of a database into it, so that it is whole without the log. Does nothing if it cannot be read. Throws
 * an error for the operator if another process reads it.
 */
function foldLog(path: string): void {
  if (!existsSync(path)) return
  let isRead = false
  try {
    edit(
      path,
      (db) => {
        isRead = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.['busy'] !== 0
      },
      limits.backupBusyMs,
    )
  } catch {
    // It was copied as it is, with its log, and is replaced.
  }
  if (isRead) throw new Error(`another process reads ${path}, such as a backup: try again when it has ended`)
}

/**
 * Copies the present records, and reads what goes into those that replace them. Damaged records are kept as the files
 * that they are. Throws an error for the operator if they cannot be copied for another reason,
 * or only their log is there.
 */
function keepPresent(present: string, stateDirectory: string, nowMs: number): KeptRecords | undefined {
  if (!existsSync(present)) {
    refuseLoneLog(present)
    return undefined
  }
  const copies = schemaCopiesOf(stateDirectory)
  const path = unusedPath(copies, nowMs)
  try {
    mkdirSync(copies, { recursive: true })
    chmodSync(copies, 0o700)
    removeUnfinishedCopies(stateDirectory)
    return { path, replaced: copyRecords(present, path) }
  } catch (cause) {
    throw new Error(
      `the present records cannot be copied to ${path}: make room there, or move ${present} aside with its -wal and -shm`,
      { cause },
    )
  }
}

/**
 * Refuses a log without its records. It may have their newest commits, and is removed before others take their place.
 */
function refuseLoneLog(present: string): void {
  const log = `${present}-wal`
  if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) === 0) return
  throw new Error(
    `${log} has changes of records that are not there: put ${present} back, or move it aside too`,
  )
}

type KeptRecords = { readonly path: string; readonly replaced: ReplacedRecords }

function copyRecords(present: string, path: string): ReplacedRecords {
  // Another connection would remove the log when it closes, also of a database that cannot be read.
  const db = new DatabaseSync(present, { readOnly: true, timeout: limits.backupBusyMs })
  try {
    const replaced = readReplaced(db)
    try {
      copyDatabase(db, path)
    } catch (error) {
      if (!isDamage(error)) throw error
      // The log first: a database under its own name has all that belongs to it.
      for (const end of ['-wal', ''])
        if (existsSync(`${present}${end}`)) copyFile(`${present}${end}`, `${path}${end}`)
    }
    return replaced
  } finally {
    db.close()
  }
}

/**
 * Returns a path that no earlier restore has used. The only copy of some records may be the one of the first of
 * several.
 */
function unusedPath(copies: string, nowMs: number): string {
  const time = new Date(nowMs).toISOString().replace(/[-:]|\.\d+/g, '')
  for (let number = 1; ; number += 1) {
    const path = join(copies, `before-restore-${time}${number === 1 ? '' : `-${number}`}.db`)
    if (![path, `${path}-wal`].some((one) => existsSync(one))) return path
  }
}

function edit(path: string, change: (db: DatabaseSync) => void, timeout = 0): void {
  const db = new DatabaseSync(path, { timeout })
  try {
    // Private keys of the host are among what is removed. This reads nothing, so damaged records do not fail it.
    db.exec('PRAGMA secure_delete = ON')
    change(db)
  } finally {
    db.close()
  }
}
