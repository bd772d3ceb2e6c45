import type { PackedPart, PackPoint, StagingId } from '../core/snapshots/record.ts'
import type { Sha256, VmId } from '../core/ids.ts'
import type { PartBody } from './object-store.ts'

export type PackJob = {
  readonly stagingId: StagingId
  /** Zero at first; later the point of the last `onPart`. Anything behind it in staging is discarded and made again. */
  readonly from: PackPoint
  /** Number of parts on record, in order; the next part is number `parts + 1` and begins at their end. */
  readonly parts: number
  readonly partBytes: number
  /**
   * Called when a part is complete, and on the disk together with everything up to `next`; for one part at a time.
   * Meanwhile packing continues, at most `limits.packAheadBytes` beyond it. If this rejects, packing ends with that
   * error.
   */
  readonly onPart: (part: PackedPart, next: PackPoint) => Promise<void>
}

/** Bytes that the file system has allocated in staging for one snapshot. */
export type Staged = {
  readonly stagingId: StagingId
  /** The compressed form; the space of discarded parts does not count. */
  readonly packedBytes: number
  /**
   * The clone of the disk. It shares its blocks with the VM's disk until those are written; this is the most it can
   * occupy.
   */
  readonly cloneBytes: number
}

/**
 * Staging of snapshots in the pool: a clone of a VM's disk until it is compressed, and its compressed form. Every
 * method throws HostFault, and the signal's reason on abort.
 */
export interface Staging {
  /** Flushes what the host has in memory of the disk, so that a clone right afterwards takes no time. */
  flushDisk(id: VmId, signal: AbortSignal): Promise<void>
  /**
   * Shares the blocks of the VM's disk as it is now, and does nothing else, because a guest is paused meanwhile.
   * Staging does not change until `keep`. `snapshot_unsupported` if the file system cannot share blocks, `disk_missing`
   * if there is no disk.
   */
  clone(stagingId: StagingId, id: VmId): Promise<void>
  /**
   * Moves the clone of this id into staging, in place of everything there under it; it is on the disk when this
   * resolves. `staging_lost` if nothing was cloned, or another daemon did it. After a fault, clone again.
   */
  keep(stagingId: StagingId): Promise<{ readonly imageBytes: number }>
  /**
   * Compresses the clone into parts, with holes skipped, in threads of its own. The stored form is a sequence of
   * independent zstd frames and a seek table. Resolves when `onPart` has taken the last part. `staging_lost` if the
   * files do not match `from`.
   */
  pack(job: PackJob, signal: AbortSignal): Promise<{ readonly storedBytes: number; readonly sha256: Sha256 }>
  /** Removes the clone, which is not needed any more. */
  removeClone(stagingId: StagingId): Promise<void>
  /** Returns a packed part; it can be read as often as it must be sent. */
  partBody(stagingId: StagingId, part: Pick<PackedPart, 'offsetBytes' | 'bytes'>): PartBody
  /** Frees the space of a part that was sent; safe to repeat. */
  discardPart(stagingId: StagingId, part: Pick<PackedPart, 'offsetBytes' | 'bytes'>): Promise<void>
  /** Removes everything of the snapshot; nothing else has it open. */
  remove(stagingId: StagingId): Promise<void>
  /** Lists everything in staging. Fails if the pool cannot be read. */
  list(): Promise<readonly Staged[]>
}
