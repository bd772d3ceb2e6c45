import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'
import { Meta } from '../database/meta.ts'
import { damagedOr, databaseIn, isDamage, lockStateDirectory } from '../database/open-database.ts'
import { firstNumber } from '../database/revisions.ts'
import { copyDatabase, flushPath, renameDurably } from '../database/schema-copies.ts'
import { KEPT_AFTER } from '../events/event-table.ts'
import { Store } from '../store.ts'
import { noteDeparted } from '../migration/departed.ts'
import { leaveOut } from './keep-departed.ts'
import { keepPresent } from './keep-present.ts'
import { keepMaintenance, maintenanceAfter, readMaintenanceOf } from './maintenance-kept.ts'
import { readRecords } from '../database/read-records.ts'
import { revisionsIn } from './replaced-records.ts'
import { isWithoutRoom } from './write-backup.ts'
import { recordedUserIds, reserveUserIds } from '../vm/user-ids.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import type { UserIdRange } from '../vm/user-ids.ts'
import type { Flush } from '../database/schema-copies.ts'
import type { MaintenanceAfter } from './maintenance-kept.ts'
import type { ReplacedRecords } from './replaced-records.ts'

/** The records are put back, but may not last through a power failure. */
export class UnflushedRecords extends Error {
  override readonly name = 'UnflushedRecords'

  constructor(path: string, options: ErrorOptions) {
    super(
      `the records are put back as ${path}, but a power failure may undo that: see to the disk, and run this again`,
      options,
    )
  }
}

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
   * @param locks whether to hold the state directory from before that until {@link remove}. Then this throws
   *   StateDirectoryInUse if the daemon runs, or another process puts records back; its copy stays.
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
      readMaintenanceOf(databaseIn(directory)),
    )
    return maintenanceAfter(present, file)
  }

  /**
   * Replaces the records of the state directory, except for VMs to leave out, which have no record afterwards. The
   * present records are kept in `copies/before-restore-TIME.db`. Throws StateDirectoryInUse if the daemon runs. If
   * the disk does not take the new records, or another process keeps reading the present ones, those stay as they are,
   * and no copy of them is left. Throws UnflushedRecords if they are replaced, and the disk fails then.
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
      const present = databaseIn(this.#stateDirectory)
      const kept = keepPresent(present, this.#stateDirectory, nowMs)
      const restored = databaseIn(this.#directory)
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
      try {
        renameDurably(restored, present, flush)
      } catch (cause) {
        if (existsSync(restored)) throw cause
        throw new UnflushedRecords(present, { cause })
      }
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

/** Opens a copy of records in a directory, which is emptied before. */
function copiedStore(path: string, directory: string, userIds: UserIdRange): Store {
  const copy = databaseIn(directory)
  try {
    rmSync(directory, { recursive: true, force: true })
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    readRecords(path, (from) => copyDatabase(from, copy))
    edit(copy, (db) => {
      db.exec('DROP TABLE IF EXISTS backup_about; DROP TABLE IF EXISTS backup_files')
    })
  } catch (cause) {
    if (isDamage(cause)) throw damagedOr(path, cause)
    const remedy = isWithoutRoom(cause) ? ': make room there' : ''
    throw new Error(`the records of ${path} cannot be copied to ${directory}${remedy}`, { cause })
  }
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
