import { isDamage } from '../database/open-database.ts'
import { Meta } from '../database/meta.ts'
import { hasColumn } from '../database/columns.ts'
import { releasesIn } from './keep-departed.ts'
import { readMaintenance } from './maintenance-kept.ts'
import { recordedUserIds } from '../vm/user-ids.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { Departure } from '../../core/migration/departure.ts'
import type { StoredMaintenance } from './maintenance-kept.ts'

/** The parts of replaced records that go into those that are put back. */
export type ReplacedRecords = {
  /** The upper end of their revisions; 0 if it cannot be read. */
  readonly revisions: number
  /** User ids of their VMs; none if they cannot be read. */
  readonly userIds: readonly number[]
  /** Releases to other hosts; none if they cannot be read. */
  readonly releases: readonly Departure[]
  /** The state of the host; undefined if it cannot be read. */
  readonly maintenance: StoredMaintenance | undefined
}

/**
 * Reads each part by itself, because damage of one page does not take the others. The records may be of any version.
 */
export const readReplaced = (db: DatabaseSync): ReplacedRecords => ({
  revisions: orIfDamaged(0, () => revisionsIn(db)),
  userIds: orIfDamaged([], () => (hasColumn(db, 'vms', 'user_id') ? recordedUserIds(db) : [])),
  releases: orIfDamaged([], () => releasesIn(db)),
  maintenance: orIfDamaged(undefined, () => readMaintenance(db)),
})

/** Returns the upper end of revisions that records have given out; 0 if they have no row for it. */
export const revisionsIn = (db: DatabaseSync): number =>
  hasColumn(db, 'meta', 'value') ? Number(new Meta(db).get('revisions') ?? 0) : 0

function orIfDamaged<T>(otherwise: T, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!isDamage(error)) throw error
    return otherwise
  }
}
