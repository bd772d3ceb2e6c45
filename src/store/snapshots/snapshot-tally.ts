import { limits } from '../../config/limits.ts'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { SnapshotId } from '../../core/snapshots/record.ts'
import type { SnapshotTally } from '../../core/snapshots/work.ts'

type Counters = Pick<SnapshotTally, 'packed' | 'sent' | 'sentImageBytes' | 'storedBytes'>

/**
 * Sums over parts and URLs of a snapshot, from counters in its row. Only packed, unsent parts are read, by an index of
 * their own; the size of staging bounds them. A page of snapshots may have millions of parts.
 */
export class SnapshotTallies {
  readonly #counters: StatementSync
  readonly #lacking: StatementSync
  readonly #completeUrl: StatementSync

  constructor(db: DatabaseSync) {
    this.#counters = db.prepare(
      `SELECT packed_parts AS packed, sent_parts AS sent, sent_image_bytes AS sentImageBytes,
         parts_bytes AS storedBytes FROM snapshots WHERE id = ?`,
    )
    this.#lacking = db.prepare(
      `SELECT number FROM snapshot_parts AS part INDEXED BY snapshot_parts_unsent
         WHERE snapshot_id = ? AND etag IS NULL AND NOT EXISTS (
         SELECT 1 FROM snapshot_urls AS url WHERE url.snapshot_id = part.snapshot_id AND url.number = part.number)
         ORDER BY number LIMIT ?`,
    )
    this.#completeUrl = db.prepare('SELECT 1 FROM snapshot_urls WHERE snapshot_id = ? AND number = 0')
  }

  of(id: SnapshotId): SnapshotTally {
    const lacking = this.#lacking.all(id, limits.lackingPartsTold) as { number: number }[]
    return {
      ...(this.#counters.get(id) as Counters),
      lacking: lacking.map(({ number }) => number),
      hasCompleteUrl: this.#completeUrl.get(id) !== undefined,
    }
  }
}
