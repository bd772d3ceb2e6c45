import type { BigIntStats } from 'node:fs'
import { limits } from '../../config/limits.ts'
import type { VmId } from '../../core/vm/ids.ts'
import type { ChecksumProgress } from './checksum.ts'

type Checked = {
  readonly inode: bigint
  readonly changedNs: bigint
  readonly crc32: number
  readonly atMs: number
}

type Begun = Omit<Checked, 'crc32'> & { readonly progress: ChecksumProgress }

/**
 * The saved memories whose checksum this process has computed, so that a wake soon after need not read them once more.
 * A file is still the one that was read where the kernel has noted no change of it: nobody can set the time of that
 * (inode(7), ctime), as its time of last write can be. What the disk does to it by itself shows in no time: so it is
 * trusted for a while only, and not past this process.
 */
export class CheckedMemory {
  readonly #checked = new Map<VmId, Checked>()
  readonly #begun = new Map<VmId, Begun>()
  readonly #nowMs: () => number

  /** @param nowMs on a clock that is never set */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** @param before the file as it was before it was read: a change since then is a change of what was read. */
  note(id: VmId, before: Pick<BigIntStats, 'ino' | 'ctimeNs'>, crc32: number): void {
    this.#checked.set(id, { inode: before.ino, changedNs: before.ctimeNs, crc32, atMs: this.#nowMs() })
  }

  /** Undefined where it has to be computed. */
  crc32Of(id: VmId, { ino, ctimeNs }: Pick<BigIntStats, 'ino' | 'ctimeNs'>): number | undefined {
    const checked = this.#checked.get(id)
    if (checked === undefined || checked.inode !== ino || checked.changedNs !== ctimeNs) return undefined
    return this.#nowMs() - checked.atMs < limits.savedUncheckedMs ? checked.crc32 : undefined
  }

  /** How far the file was read by attempts that did not come to their end, to be moved on; the beginning for any other file. */
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
