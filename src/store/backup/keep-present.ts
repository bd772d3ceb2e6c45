import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isDamage } from '../database/open-database.ts'
import {
  copyDatabase,
  copyFile,
  removeUnfinishedCopies,
  schemaCopiesOf,
  timeInName,
} from '../database/schema-copies.ts'
import { readRecords } from '../database/read-records.ts'
import { readReplaced } from './replaced-records.ts'
import type { ReplacedRecords } from './replaced-records.ts'

/** The path of the copy of the present records, and what goes from them into those that replace them. */
type KeptRecords = { readonly path: string; readonly replaced: ReplacedRecords }

/**
 * Copies the present records, and reads what goes into those that replace them. Damaged records are kept as the files
 * that they are. Throws an error for the operator if they cannot be copied for another reason,
 * or only their log is there.
 */
export function keepPresent(present: string, stateDirectory: string, nowMs: number): KeptRecords | undefined {
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

const copyRecords = (present: string, path: string): ReplacedRecords =>
  // A connection that may write would remove the log when it closes, also of a database that cannot be read.
  readRecords(present, (db) => {
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
  })

/**
 * Returns a path that no earlier restore has used. The only copy of some records may be the one of the first of
 * several.
 */
function unusedPath(copies: string, nowMs: number): string {
  const time = timeInName(nowMs)
  for (let number = 1; ; number += 1) {
    const path = join(copies, `before-restore-${time}${number === 1 ? '' : `-${number}`}.db`)
    if (![path, `${path}-wal`].some((one) => existsSync(one))) return path
  }
}
