import type { BigIntStats } from 'node:fs'
import { limits } from '../../config/limits.ts'
import type { VmId } from '../../core/ids.ts'
import type { ChecksumProgress } from '../files/checksum.ts'

type Checked = {
  readonly inode: bigint
  readonly changedNs: bigint
  readonly crc32: number
  readonly atMs: number
}

type Begun = Omit<Checked, 'crc32'> & { readonly progress: ChecksumProgress }

/**
 * Remembers the checksums of saved memories that this process has computed, so a wake soon after does not read them
 * again. A file counts as unchanged while the kernel reports no change of it. A user cannot set that time (inode(7),
 * ctime), but can set the time of last write. No time shows what the disk itself does to the data. So a checksum is
 * trusted only for a while, and only by this process.
 */
export class CheckedMemory {
  readonly #checked = new Map<VmId, Checked>()
  readonly #begun = new Map<VmId, Begun>()
  readonly #nowMs: () => number

  /** @param nowMs reads a monotonic clock */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** @param before the file's status before it was read: a later change of the file invalidates the checksum */
  note(id: VmId, before: Pick<BigIntStats, 'ino' | 'ctimeNs'>, crc32: number): void {
    this.#checked.set(id, { inode: before.ino, changedNs: before.ctimeNs, crc32, atMs: this.#nowMs() })
  }

  /** Returns the known checksum; undefined if it must be computed. */
  crc32Of(id: VmId, { ino, ctimeNs }: Pick<BigIntStats, 'ino' | 'ctimeNs'>): number | undefined {
    const checked = this.#checked.get(id)
    if (checked === undefined || checked.inode !== ino || checked.changedNs !== ctimeNs) return undefined
    return this.#nowMs() - checked.atMs < limits.savedUncheckedMs ? checked.crc32 : undefined
  }

  /**
   * Returns how far unfinished attempts have read the file, for the caller to advance; the beginning for any other
   * file.
   */
  progressOf(id: VmId, { ino, ctimeNs }: Pick<BigIntStats, 'ino' | 'ctimeNs'>): ChecksumProgress {
    const begun = this.#begun.get(id)
    const isSame = begun?.inode === ino && begun.changedNs === ctimeNs
    const isFresh = begun !== undefined && this.#nowMs() - begun.atMs < limits.checksumProgressMs
    if (isSame && isFresh) return begun.progress
    const progress = { bytes: 0, crc32: 0 }
    this.#begun.set(id, { inode: ino, changedNs: ctimeNs, atMs: this.#nowMs(), progress })
    return progress
  }

  forget(id: VmId): void {
    this.#checked.delete(id)
    this.#begun.delete(id)
  }
}
