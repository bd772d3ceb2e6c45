import { limits } from '../../config/limits.ts'
import { isUndecided } from '../../core/migration/departure.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { Departure } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'

/**
 * Notes a departure whose record ends, or takes another one. Kept are the newest that came as far as a last round:
 * their destination may have the guest, asks until it gets an answer, and must get the same one.
 */
export function noteDeparted(db: DatabaseSync, departure: Departure | undefined): void {
  if (departure?.lastRound === undefined || isUndecided(departure)) return
  db.prepare('INSERT OR REPLACE INTO departed (departure) VALUES (?)').run(JSON.stringify(departure))
  db.prepare('DELETE FROM departed WHERE number <= (SELECT max(number) FROM departed) - ?').run(
    limits.departedMax,
  )
}

/** Returns the departure of this migration, if no record has it any more. */
export function readDeparted(db: DatabaseSync, id: MigrationId): Departure | undefined {
  const row = db.prepare("SELECT departure FROM departed WHERE departure ->> '$.id' = ?").get(id)
  return row && (JSON.parse(String(row['departure'])) as Departure)
}
