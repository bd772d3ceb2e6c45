import type { OperationId, Sha256, VmId } from '../../core/ids.ts'
import type {
  Capture,
  SnapshotId,
  SnapshotPart,
  SnapshotRecord,
  SnapshotStage,
  StagingId,
  Trouble,
} from '../../core/snapshots/record.ts'

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
    resumable: row.resumable === 1,
    revision: row.revision,
    createdAtMs: row.created_at_ms,
    updatedAtMs: row.updated_at_ms,
    lastActivityAtMs: row.last_activity_at_ms,
  }
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
