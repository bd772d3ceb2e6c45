import { noteDeparted } from '../migration/departed.ts'
import { hasColumn, memberOf } from './columns.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'

/**
 * Returns the releases that records have: a destination may not have heard of its release yet, and must get the same answer
 * from records that replace these. Returns none from records of a version that moved no VM.
 */
export const releasesIn = (db: DatabaseSync): readonly Departure[] =>
  [
    ['departed', 'number'],
    ['vms', 'id'],
  ].flatMap(([table = '', order = '']) =>
    hasColumn(db, table, 'departure')
      ? db
          .prepare(
            `SELECT departure FROM ${table} WHERE ${memberOf('departure', 'stage')} = 'released' ORDER BY ${order}`,
          )
          .all()
          .map((row) => JSON.parse(String(row['departure'])) as Departure)
      : [],
  )

/** Removes the record of a VM that is left out, and keeps how it departed. */
export function leaveOut(db: DatabaseSync, id: VmId): void {
  const row = db.prepare('SELECT departure FROM vms WHERE id = ?').get(id)
  if (typeof row?.['departure'] === 'string') noteDeparted(db, JSON.parse(row['departure']) as Departure)
  db.prepare('DELETE FROM vms WHERE id = ?').run(id)
}
