import type { PackedPart, PackPoint, StagingId } from '../core/snapshot/record.ts'
import type { Sha256, VmId } from '../core/vm/ids.ts'
import type { PartBody } from './object-store.ts'

export type PackJob = {
  readonly stagingId: StagingId
  /** Zero at first; later as the last `onPart` told. What lies behind it in staging is thrown away and made again. */
  readonly from: PackPoint
  /** Parts that are on record, in order; the next one is number `parts + 1` and begins where they end. */
  readonly parts: number
  readonly partBytes: number
  /**
   * A part is whole, and on the disk together with all up to `next`. Called for one part at a time; meanwhile packing goes
   * on, no further than `limits.packAheadBytes` beyond it. Where it rejects, packing ends with that.
   */
  readonly onPart: (part: PackedPart, next: PackPoint) => Promise<void>
}

/** What lies in staging of one snapshot, in bytes that the file system has allocated. */
export type Staged = {
  readonly stagingId: StagingId
  /** Of the compressed form; space of parts that were discarded does not count. */
  readonly packedBytes: number
  /** The clone of the disk. It shares its blocks with the VM's disk until that is written: this is the most it can come to. */
  readonly cloneBytes: number
}

/**
 * Where snapshots are made: a clone of a VM's disk until it is compressed, and its compressed form, in the pool. Every method
 * throws HostFault, and the signal's reason on abort.
 */
export interface Staging {
  /** Writes out what the host has in memory of the disk, so that a clone right afterwards takes no time. */
  flushDisk(id: VmId, signal: AbortSignal): Promise<void>
  /**
   * Shares the blocks of the VM's disk as it is now, and does nothing else: a guest stands still for it. Nothing of staging
   * is changed until `keep`. `snapshot_unsupported` where the file system cannot share blocks, `disk_missing` where there is
   * no disk.
   */
  clone(stagingId: StagingId, id: VmId): Promise<void>
  /**
   * Takes what was cloned for this id into staging, on the disk when this resolves, in place of all that was there under it.
   * `staging_lost` where nothing was cloned, or another daemon did it; after a fault it is to be cloned anew.
   */
  keep(stagingId: StagingId): Promise<{ readonly imageBytes: number }>
  /**
   * Compresses the clone into parts, with holes skipped, in threads of its own. What is stored is a sequence of independent
   * zstd frames and a seek table. Resolves when the last part was taken by `onPart`. `staging_lost` where the files are not as
   * `from` says.
   */
  pack(job: PackJob, signal: AbortSignal): Promise<{ readonly storedBytes: number; readonly sha256: Sha256 }>
  /** The clone is of no use any more. */
  removeClone(stagingId: StagingId): Promise<void>
  /** A packed part, to be read as often as it has to be sent. */
  partBody(stagingId: StagingId, part: Pick<PackedPart, 'offsetBytes' | 'bytes'>): PartBody
  /** Frees the space of a part that was sent; safe to repeat. */
  discardPart(stagingId: StagingId, part: Pick<PackedPart, 'offsetBytes' | 'bytes'>): Promise<void>
  /** Removes all of it; nothing else has it open. */
  remove(stagingId: StagingId): Promise<void>
  /** Everything in staging. Fails where the pool is out of sight. */
  list(): Promise<readonly Staged[]>
}
