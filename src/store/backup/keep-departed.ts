import { noteDeparted } from '../migration/departed.ts'
import { hasColumn, memberOf } from '../database/columns.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'

/**
 * Returns the releases that records have: a destination may not have heard of its release yet, and must get the same
 * answer from records that replace these. Returns none from records of a version that moved no VM.
 */
export const releasesIn = (db: DatabaseSync): readonly Departure[] => [
  ...releasesOf(db, 'departed', 'number'),
  ...releasesOf(db, 'vms', 'id'),
]

const releasesOf = (db: DatabaseSync, table: string, order: string): readonly Departure[] =>
  hasColumn(db, table, 'departure')
    ? db
        .prepare(
          `SELECT departure FROM ${table} WHERE ${memberOf('departure', 'stage')} = 'released' ORDER BY ${order}`,
        )
        .all()
        .map((row) => JSON.parse(String(row['departure'])) as Departure)
    : []

/** Removes the records of VMs that are left out, also those that cannot be read, and keeps how they departed. */
export function leaveOut(db: DatabaseSync, ids: readonly VmId[]): void {
  const departure = db.prepare('SELECT departure FROM vms WHERE id = ? AND json_valid(departure)')
  for (const id of ids) {
    const row = departure.get(id)
    if (row !== undefined) noteDeparted(db, JSON.parse(String(row['departure'])) as Departure)
  }
  const removal = db.prepare('DELETE FROM vms WHERE id = ?')
  const remove = () => ids.forEach((id) => removal.run(id))
  if (ids.some((id) => lacksJson(db, id))) withoutJsonIndexes(db, remove)
  else remove()
}

const lacksJson = (db: DatabaseSync, id: VmId): boolean =>
  db
    .prepare(
      `SELECT 1 FROM vms WHERE id = ? AND NOT (json_valid(desired) AND json_valid(observed) AND ifnull(json_valid(departure), 1))`,
    )
    .get(id) !== undefined

/** Removes rows without the indexes of members of JSON: SQLite takes no row out of them whose text is not JSON. */
function withoutJsonIndexes(db: DatabaseSync, remove: () => void): void {
  const indexes = db
    .prepare(
      "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'vms' AND sql LIKE '%->>%'",
    )
    .all()
  for (const { name } of indexes) db.exec(`DROP INDEX ${String(name)}`)
  remove()
  try {
    for (const { sql } of indexes) db.exec(String(sql))
  } catch (cause) {
    throw new Error('leave out every VM whose record cannot be read, or none', { cause })
  }
}
