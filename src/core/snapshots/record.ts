import { unreachable } from '../../lib/assert.ts'
import type { Brand } from '../../lib/brand.ts'
import type { FaultCode } from '../errors.ts'
import type { SignedUrl } from '../outbound/signed-url.ts'
import type { OperationId, Sha256, VmId } from '../ids.ts'

/** Chosen by the controller; has the same form as a VM's id. */
export type SnapshotId = Brand<string, 'SnapshotId'>
/** Names the staging of one snapshot. It is never used again, so the rest of a deleted snapshot belongs to none. */
export type StagingId = Brand<string, 'StagingId'>

/**
 * How far a snapshot has come, as stored: what a daemon that comes back goes on with.
 *
 * - `waiting` for a moment in which the disk of its VM can be captured;
 * - `capturing`: the guest may be frozen;
 * - `packing`: captured; it is compressed into parts, which are sent as they are made;
 * - `sending`: all of it is packed;
 * - `completing`: the store has every part, and may have been asked to complete the upload.
 */
export type SnapshotStage = (typeof SNAPSHOT_STAGES)[number]

/** All stages, in their order. */
export const SNAPSHOT_STAGES = [
  'waiting',
  'capturing',
  'packing',
  'sending',
  'completing',
  'completed',
  'failed',
] as const

/** `file_system`: the guest's file systems were frozen. `crash`: the image is what a loss of power would have left. */
export type Consistency = 'file_system' | 'crash'

/** The captured image, and the time of its capture. */
export type Capture = {
  readonly atMs: number
  readonly imageBytes: number
  readonly consistency: Consistency
  /** How long the guest was paused, in milliseconds; 0 if it did not run. */
  readonly pausedMs: number
}

/**
 * Where packing continues: at the start of a frame, in the image and in the stored form. Everything before it is on the
 * disk.
 */
export type PackPoint = { readonly imageBytes: number; readonly storedBytes: number }

/** A piece of the stored form, as it is sent. All have the same size except the last one. */
export type PackedPart = {
  /** From 1, as the store counts. */
  readonly number: number
  /** Position in the stored form at which the part begins. */
  readonly offsetBytes: number
  readonly bytes: number
  /** Bytes of the image whose frames end in the part; they are done once the part is sent. */
  readonly imageBytes: number
  /** Lower-case hexadecimal. */
  readonly md5: string
  readonly sha256: string
}

export type SnapshotPart = PackedPart & {
  /** The ETag that the store returned when it took the part. */
  readonly etag?: string
}

/** Packed parts that are in staging. `isWhole`: all of them, including those that were sent. */
export type StagedParts = { readonly bytes: number; readonly isWhole: boolean }

/** The reason why a snapshot makes no progress, or has failed. */
export type Trouble = {
  readonly code: FaultCode
  /** In plain words, without any part of a URL. */
  readonly message: string
  readonly sinceMs: number
  readonly attempt: number
  /** Absent if it waits for the controller, or has failed. */
  readonly nextAttemptAtMs?: number
}

export type PackWait = 'room in staging' | 'the packing of other snapshots'

export type SnapshotRecord = {
  readonly id: SnapshotId
  readonly vmId: VmId
  /** Creation time of the VM, because another VM may have taken its id since. */
  readonly vmCreatedAtMs: number
  readonly stagingId: StagingId
  /** Operation of the newest request that changed the snapshot. */
  readonly operationId: OperationId
  readonly stage: SnapshotStage
  readonly partMib: number
  readonly capture?: Capture
  readonly packed: PackPoint
  readonly staged: StagedParts
  /** Digest of the whole image; present once everything is packed. */
  readonly sha256?: Sha256
  /** A completion was sent; its answer may be lost until it is stored. */
  readonly completionSent: boolean
  readonly trouble?: Trouble
  /** The wait of the next part for its packing. It passes by itself, and is not trouble. */
  readonly waitingFor?: PackWait
  /** For a failed snapshot: whether fresh URLs let it continue from where it was. */
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
  /** After a deletion, another snapshot may have the id by now. */
  readonly stagingId: StagingId
  readonly operationId: OperationId
}

/**
 * The URLs of a snapshot that are not used up: numbers of parts, and the two for its end. Never the URLs themselves.
 */
export type UrlsAtHand = {
  readonly parts: ReadonlySet<number>
  readonly complete: boolean
  readonly head: boolean
}

/** Returns whether the snapshot completed or failed. After a failure, fresh URLs may let it continue. */
export const hasEnded = ({ stage }: Pick<SnapshotRecord, 'stage'>): boolean =>
  stage === 'completed' || stage === 'failed'

/** Returns whether the snapshot has ended for good: it needs no URL and no staging any more. */
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

/** Signed URLs for a snapshot, as a controller hands them over. */
export type SnapshotUrls = {
  /** The number of the part that the first of `parts` is for. */
  readonly firstPart: number
  readonly parts: readonly SignedUrl[]
  readonly complete?: SignedUrl
  readonly head?: SignedUrl
}

/** The purpose of a URL: a part, by its number, or one of the two for the end of the upload. */
export type UrlPurpose = number | 'complete' | 'head'
