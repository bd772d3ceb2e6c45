import type { OperationId, Sha256, VmId } from '../../core/ids.ts'
import type {
  Capture,
  PackWait,
  SnapshotId,
  SnapshotPart,
  SnapshotRecord,
  SnapshotStage,
  SnapshotStatus,
  StagingId,
  Trouble,
} from '../../core/snapshots/record.ts'
import { SNAPSHOT_STAGES, statusOf } from '../../core/snapshots/record.ts'
import { limits } from '../../config/limits.ts'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { SnapshotTally } from '../../core/snapshots/work.ts'

/** A row of `snapshots` as SQLite gives it. */
export type SnapshotRow = {
  id: string
  vm_id: string
  vm_created_at_ms: number
  staging_id: string
  operation_id: string
  stage: string
  part_mib: number
  capture: string | null
  packed_image_bytes: number
  packed_stored_bytes: number
  parts_bytes: number
  staged_bytes: number
  sha256: string | null
  completion_sent: number
  trouble: string | null
  waiting_for: string | null
  resumable: number
  revision: number
  created_at_ms: number
  updated_at_ms: number
  last_activity_at_ms: number
}

export function snapshotOf(row: SnapshotRow): SnapshotRecord {
  return {
    id: row.id as SnapshotId,
    vmId: row.vm_id as VmId,
    vmCreatedAtMs: row.vm_created_at_ms,
    stagingId: row.staging_id as StagingId,
    operationId: row.operation_id as OperationId,
    stage: row.stage as SnapshotStage,
    partMib: row.part_mib,
    ...(row.capture === null ? {} : { capture: JSON.parse(row.capture) as Capture }),
    packed: { imageBytes: row.packed_image_bytes, storedBytes: row.packed_stored_bytes },
    staged: { bytes: row.staged_bytes, isWhole: row.staged_bytes === row.parts_bytes },
    ...(row.sha256 === null ? {} : { sha256: row.sha256 as Sha256 }),
    completionSent: row.completion_sent === 1,
    ...(row.trouble === null ? {} : { trouble: JSON.parse(row.trouble) as Trouble }),
    ...(row.waiting_for === null ? {} : { waitingFor: row.waiting_for as PackWait }),
    resumable: row.resumable === 1,
    revision: row.revision,
    createdAtMs: row.created_at_ms,
    updatedAtMs: row.updated_at_ms,
    lastActivityAtMs: row.last_activity_at_ms,
  }
}

/** A record as it is written; an absent member and an undefined one are the same. */
export type WrittenSnapshot = Omit<SnapshotRecord, 'trouble' | 'waitingFor'> & {
  readonly trouble?: Trouble | undefined
  readonly waitingFor?: PackWait | undefined
}

export const stagesOf = (status: SnapshotStatus): readonly SnapshotStage[] =>
  SNAPSHOT_STAGES.filter((stage) => statusOf({ stage }) === status)

/** Returns the stage from which a failed snapshot continues; its record holds what it has done. */
export function resumedStage(record: SnapshotRecord): SnapshotStage {
  if (record.stage !== 'failed') return record.stage
  if (record.capture === undefined) return 'waiting'
  return record.sha256 === undefined ? 'packing' : 'sending'
}

/** A row of `snapshot_parts`. */
export type PartRow = {
  number: number
  offset_bytes: number
  bytes: number
  image_bytes: number
  md5: string
  sha256: string
  etag: string | null
}

export const partOf = (row: PartRow): SnapshotPart => ({
  number: row.number,
  offsetBytes: row.offset_bytes,
  bytes: row.bytes,
  imageBytes: row.image_bytes,
  md5: row.md5,
  sha256: row.sha256,
  ...(row.etag === null ? {} : { etag: row.etag }),
})

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
    const lacking = this.#lacking.all(id, limits.lackingPartsShown) as { number: number }[]
    return {
      ...(this.#counters.get(id) as Counters),
      lacking: lacking.map(({ number }) => number),
      hasCompleteUrl: this.#completeUrl.get(id) !== undefined,
    }
  }
}
