import { unreachable } from '../../lib/assert.ts'
import type { Brand } from '../../lib/brand.ts'
import type { FaultCode } from '../errors.ts'
import type { OperationId, Sha256, VmId } from '../vm/ids.ts'

/** Chosen by the controller; of the same form as a VM's. */
export type SnapshotId = Brand<string, 'SnapshotId'>
/** Names the staging of one snapshot. Never used again, so what is left of a deleted one is nobody's. */
export type StagingId = Brand<string, 'StagingId'>

/**
 * How far a snapshot has come, as stored: what a daemon that comes back goes on with.
 *
 * - `waiting` for a moment in which the disk of its VM can be captured;
 * - `capturing`: the guest may be frozen;
 * - `packing`: captured; it is compressed into parts, which are sent as they are made;
 * - `sending`: all of it is packed;
 * - `completing`: the store has every part, and may have been told to complete the upload.
 */
export type SnapshotStage =
  | 'waiting'
  | 'capturing'
  | 'packing'
  | 'sending'
  | 'completing'
  | 'completed'
  | 'failed'

/** Whether the file systems of the guest were frozen, or the image is what a loss of power would have left. */
export type Consistency = 'file_system' | 'crash'

/** What was captured, and when. */
export type Capture = {
  readonly atMs: number
  readonly imageBytes: number
  readonly consistency: Consistency
  /** For how long the guest stood still; 0 where it did not run. */
  readonly pausedMs: number
}

/** Where packing goes on: at a frame's begin, in the image and in what is stored. All before it is on the disk. */
export type PackPoint = { readonly imageBytes: number; readonly storedBytes: number }

/** A piece of what is stored, as it is sent. All have the same size but the last. */
export type PackedPart = {
  /** From 1, as the store counts. */
  readonly number: number
  /** Where it begins in what is stored. */
  readonly offsetBytes: number
  readonly bytes: number
  /** Bytes of the image whose frames end in it: what is done once it is sent. */
  readonly imageBytes: number
  /** Lower-case hexadecimal. */
  readonly md5: string
  readonly sha256: string
}

export type SnapshotPart = PackedPart & {
  /** As the store named it when it took the part. */
  readonly etag?: string
}

/** What lies in staging of the parts that are packed. `isWhole`: all of them, those included that were sent. */
export type StagedParts = { readonly bytes: number; readonly isWhole: boolean }

/** Why a snapshot stands still, or has failed. */
export type Trouble = {
  readonly code: FaultCode
  /** In plain words, without any part of a URL. */
  readonly message: string
  readonly sinceMs: number
  readonly attempt: number
  /** Absent where it waits for the controller, or has failed. */
  readonly nextAttemptAtMs?: number
}

export type SnapshotRecord = {
  readonly id: SnapshotId
  readonly vmId: VmId
  /** Of the VM: another one may have taken its id since. */
  readonly vmCreatedAtMs: number
  readonly stagingId: StagingId
  /** Of the newest request that changed it. */
  readonly operationId: OperationId
  readonly stage: SnapshotStage
  readonly partMib: number
  readonly capture?: Capture
  readonly packed: PackPoint
  readonly staged: StagedParts
  /** Of the whole image; there once all is packed. */
  readonly sha256?: Sha256
  /** A completion was sent; until its answer is stored it may be lost. */
  readonly completionSent: boolean
  readonly trouble?: Trouble
  /** Of a failed one: fresh URLs let it go on from where it was. */
  readonly resumable: boolean
  readonly revision: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
  readonly lastActivityAtMs: number
}

/** A request that changed a snapshot, as its owner logs it. */
export type SnapshotRequest = {
  readonly reason: string
  readonly vmId: VmId
  /** Of a snapshot that was deleted, another one may have the id by now. */
  readonly stagingId: StagingId
  readonly operationId: OperationId
}

/** Which URLs a snapshot has that were not used up: numbers of parts, and the two for its end. Never the URLs. */
export type UrlsAtHand = {
  readonly parts: ReadonlySet<number>
  readonly complete: boolean
  readonly head: boolean
}

/** For good: it needs no URL any more, and nothing that is staged. */
export const isOver = ({ stage, resumable }: Pick<SnapshotRecord, 'stage' | 'resumable'>): boolean =>
  stage === 'completed' || (stage === 'failed' && !resumable)

export type SnapshotStatus = 'pending' | 'uploading' | 'completed' | 'failed'

export function statusOf({ stage }: Pick<SnapshotRecord, 'stage'>): SnapshotStatus {
  switch (stage) {
    case 'waiting':
    case 'capturing':
      return 'pending'
    case 'packing':
    case 'sending':
    case 'completing':
      return 'uploading'
    case 'completed':
    case 'failed':
      return stage
    default:
      return unreachable(stage)
  }
}
