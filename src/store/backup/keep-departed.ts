import { DatabaseSync } from 'node:sqlite'
import { noteDeparted } from '../migration/departed.ts'
import type { VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'

/**
 * Keeps the releases that the replaced records have, within records that are put back: a destination may not have heard of
 * its release yet, and must get the same answer. Keeps nothing if the replaced records are of a version that moved no VM.
 */
export function keepReleases(db: DatabaseSync, replaced: string): void {
  let releases: readonly Departure[]
  try {
    releases = releasesIn(replaced)
  } catch {
    // They have no table of departures.
    return
  }
  for (const departure of releases) noteDeparted(db, departure)
}

/** Removes the record of a VM that is left out, and keeps how it departed. */
export function leaveOut(db: DatabaseSync, id: VmId): void {
  const row = db.prepare('SELECT departure FROM vms WHERE id = ?').get(id)
  if (typeof row?.['departure'] === 'string') noteDeparted(db, JSON.parse(row['departure']) as Departure)
  db.prepare('DELETE FROM vms WHERE id = ?').run(id)
}

function releasesIn(path: string): readonly Departure[] {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    return ['SELECT departure FROM departed ORDER BY number', 'SELECT departure FROM vms ORDER BY id']
      .flatMap((sql) => db.prepare(sql).all())
      .flatMap((row) =>
        row['departure'] === null ? [] : (JSON.parse(String(row['departure'])) as Departure),
      )
      .filter(({ stage }) => stage === 'released')
  } finally {
    db.close()
  }
}
