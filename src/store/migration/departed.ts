import { limits } from '../../config/limits.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { Departure } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'

/**
 * Notes the departure of a VM whose record ends. Only released ones are kept, and the newest of them: a destination may ask for
 * its release again after the deletion, and must get the same answer.
 */
export function noteDeparted(db: DatabaseSync, departure: Departure | undefined): void {
  if (departure?.stage !== 'released') return
  db.prepare('INSERT OR REPLACE INTO departed (departure) VALUES (?)').run(JSON.stringify(departure))
  db.prepare('DELETE FROM departed WHERE number <= (SELECT max(number) FROM departed) - ?').run(
    limits.departedMax,
  )
}

/** Returns the departure of a VM that was released by this migration and then deleted. */
export function readDeparted(db: DatabaseSync, id: MigrationId): Departure | undefined {
  const row = db.prepare("SELECT departure FROM departed WHERE departure ->> '$.id' = ?").get(id)
  return row && (JSON.parse(String(row['departure'])) as Departure)
}
