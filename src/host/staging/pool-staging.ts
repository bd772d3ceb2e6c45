import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { StagingId } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'
import { abortable } from '../../lib/abortable.ts'
import type { PartBody } from '../../ports/object-store.ts'
import type { PackJob, Staged, Staging } from '../../ports/staging.ts'
import type { BoundedLooks } from '../files/bounded-looks.ts'
import { reflinkOfVm } from '../files/clone-file.ts'
import { giveName, sync } from '../files/durable.ts'
import { openOfVm } from '../files/open-of-vm.ts'
import { mkdir, open, readdir, removeFile, removeTree, rename, stat } from '../files/pool-files.ts'
import { PRIVATE_MODE } from '../pool/pool-paths.ts'
import type { PoolAccess } from '../pool/pool-access.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { ifThere, orStorageFault, storageFault } from '../files/storage-fault.ts'
import type { ThreadSource } from '../threads/task-thread.ts'
import { pack } from './pack.ts'
import type { Packed } from './pack.ts'
import { CompressThreads, StretchCutShort, threadBesideThis } from './pack-threads.ts'
import { NotAsSaid, chunksOf } from './packed-files.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import type { Part } from './packed-files.ts'

/** The terms of packing. */
export type PackTerms = {
  /** zstd's compression level, from 1 to 19; absent: 3, zstd's own default. */
  readonly level?: number
  readonly frameBytes?: number
  /** The script of a thread; without it, the one beside the sources. */
  readonly threadSource?: ThreadSource
}

export type PoolStagingOptions = PoolAccess & { readonly terms: PackTerms }

/**
 * Matches directories that may be a staging. There are others, e.g. lost+found, and files that the daemon did not make.
 */
const STAGING_ID = /^[A-Za-z0-9][A-Za-z0-9._-]*$/

/** The unit of st_blocks (stat(2)). */
const BLOCK_BYTES = 512

/** Stages snapshots in the storage pool, which must be able to share blocks. */
export class PoolStaging implements Staging {
  readonly #paths: PoolPaths
  readonly #verifyPool: () => Promise<void>
  readonly #looks: BoundedLooks
  readonly #ready: () => Promise<void>
  readonly #terms: Required<PackTerms>
  readonly #threads: CompressThreads
  /** The clones under way, including those without a waiting caller. */
  readonly #cloning = new Map<StagingId, Promise<void>>()

  constructor({ paths, looks, verify, ready, terms }: PoolStagingOptions) {
    this.#paths = paths
    this.#verifyPool = verify
    this.#looks = looks
    this.#ready = ready
    this.#terms = { level: 3, frameBytes: limits.frameBytes, threadSource: threadBesideThis, ...terms }
    const count = Math.min(limits.packThreadsMax, availableParallelism())
    this.#threads = new CompressThreads(this.#terms.threadSource, count)
  }

  async flushDisk(id: VmId, signal: AbortSignal): Promise<void> {
    await this.#ready()
    try {
      await abortable(this.#flush(id), signal)
    } catch (error) {
      signal.throwIfAborted()
      throw storageFault(error, `flushing the disk of VM ${id}`, diskCode(error))
    }
  }

  async #flush(id: VmId): Promise<void> {
    const handle = await openOfVm(this.#paths.disk(id))
    try {
      await handle.datasync()
    } finally {
      await handle.close()
    }
  }

  async clone(stagingId: StagingId, id: VmId): Promise<void> {
    await this.#cloning.get(stagingId)?.catch(() => {})
    const cloning = this.#clone(stagingId, id)
    this.#cloning.set(stagingId, cloning)
    try {
      await cloning
    } finally {
      if (this.#cloning.get(stagingId) === cloning) this.#cloning.delete(stagingId)
    }
  }

  async #clone(stagingId: StagingId, id: VmId): Promise<void> {
    const doing = `capturing the disk of VM ${id}`
    await this.#ready()
    const cloned = this.#cloned(stagingId)
    try {
      // An earlier clone may be left that was not kept.
      await removeFile(cloned)
      if (!(await reflinkOfVm(this.#paths.disk(id), cloned)))
        throw new HostFault('snapshot_unsupported', doing)
    } catch (error) {
      await removeFile(cloned).catch(() => {})
      throw storageFault(error, doing, diskCode(error))
    }
  }

  async keep(stagingId: StagingId): Promise<{ readonly imageBytes: number }> {
    await this.#ready()
    const cloned = this.#cloned(stagingId)
    try {
      await sync(cloned)
      await mkdir(this.#paths.staged(stagingId), { recursive: true, mode: PRIVATE_MODE })
      for (const path of [this.#paths.stagedPacked(stagingId), this.#paths.stagedFrames(stagingId)])
        await removeFile(path)
      await giveName(cloned, this.#paths.stagedClone(stagingId))
      await sync(this.#paths.staging)
      const { size } = await stat(this.#paths.stagedClone(stagingId))
      return { imageBytes: size }
    } catch (error) {
      await removeFile(cloned).catch(() => {})
      throw await this.#fault(error, `keeping the clone that is staged as ${stagingId}`)
    }
  }

  /** The path of a clone between `clone` and `keep`. If the daemon dies, it is removed with the rest of `tmp/`. */
  #cloned(stagingId: StagingId): string {
    return join(this.#paths.tmp, `clone-${stagingId}`)
  }

  async pack(job: PackJob, signal: AbortSignal): Promise<Packed> {
    const { stagingId } = job
    const { level, frameBytes, threadSource } = this.#terms
    await this.#ready()
    signal.throwIfAborted()
    const paths = {
      clone: this.#paths.stagedClone(stagingId),
      packed: this.#paths.stagedPacked(stagingId),
      entries: this.#paths.stagedFrames(stagingId),
    }
    const packing = { job, paths, threads: this.#threads, threadSource, level, frameBytes }
    try {
      return await pack(packing, signal)
    } catch (error) {
      if (error === signal.reason) throw error
      throw await this.#fault(error, `packing what is staged as ${stagingId}`)
    }
  }

  async removeClone(stagingId: StagingId): Promise<void> {
    await this.#ready()
    await orStorageFault(`removing the clone that is staged as ${stagingId}`, () =>
      removeFile(this.#paths.stagedClone(stagingId)),
    )
  }

  partBody(stagingId: StagingId, part: Part): PartBody {
    const path = this.#paths.stagedPacked(stagingId)
    const fault = (error: unknown): Promise<unknown> =>
      this.#fault(error, `reading a part of what is staged as ${stagingId}`)
    return {
      bytes: part.bytes,
      async *chunks(signal) {
        try {
          yield* chunksOf(path, part, signal)
        } catch (error) {
          throw signal.aborted ? signal.reason : await fault(error)
        }
      },
    }
  }

  async discardPart(stagingId: StagingId, { offsetBytes, bytes }: Part): Promise<void> {
    const doing = `freeing a part of what is staged as ${stagingId}`
    await this.#ready()
    await orStorageFault(doing, async () => {
      const handle = await ifThere(open(this.#paths.stagedPacked(stagingId), 'r+'))
      if (handle === undefined) return
      try {
        if (!(await handle.punchHole(offsetBytes, bytes))) throw new HostFault('storage_failed', doing)
      } finally {
        await handle.close()
      }
    })
  }

  async remove(stagingId: StagingId): Promise<void> {
    await this.#ready()
    await this.#cloning.get(stagingId)?.catch(() => {})
    const removed = this.#paths.removed()
    await orStorageFault(`removing what is staged as ${stagingId}`, async () => {
      await removeFile(this.#cloned(stagingId))
      const there = await ifThere(rename(this.#paths.staged(stagingId), removed).then(() => true))
      if (there === undefined) return
      await sync(this.#paths.staging)
      await removeTree(removed)
    })
  }

  list(): Promise<readonly Staged[]> {
    return this.#looks.take('listing what is staged in the storage pool', async () => {
      const entries = (await ifThere(readdir(this.#paths.staging, { withFileTypes: true }))) ?? []
      const staged: Staged[] = []
      for (const entry of entries) {
        if (!entry.isDirectory() || !STAGING_ID.test(entry.name)) continue
        const stagingId = entry.name as StagingId
        staged.push({
          stagingId,
          packedBytes: await allocated(this.#paths.stagedPacked(stagingId)),
          cloneBytes: await allocated(this.#paths.stagedClone(stagingId)),
        })
      }
      await this.#verifyPool()
      return staged
    })
  }

  /**
   * Turns an error into a fault. Missing or changed files mean that the staging is lost, unless the whole pool is out
   * of sight.
   */
  async #fault(error: unknown, doing: string): Promise<unknown> {
    const missing = hasErrno(error, 'ENOENT')
    const short = error instanceof NotAsSaid || error instanceof StretchCutShort
    if (!missing && !short) return storageFault(error, doing)
    try {
      await this.#looks.take(doing, this.#verifyPool)
      // It was the pool that was missing, if the file is there now.
      if (missing && (await this.#looks.take(doing, () => isThere(error)))) return storageFault(error, doing)
      await this.#looks.take(doing, this.#verifyPool)
    } catch (outOfSight) {
      return outOfSight
    }
    const cause = short ? error : new Error('a file of it is gone')
    return new HostFault('staging_lost', doing, { cause })
  }
}

/** Returns whether the file of an error of a system call is there. */
async function isThere(error: unknown): Promise<boolean> {
  const { path } = error as NodeJS.ErrnoException
  return path !== undefined && (await ifThere(stat(path))) !== undefined
}

const diskCode = (error: unknown): 'disk_missing' | undefined =>
  hasErrno(error, 'ENOENT') ? 'disk_missing' : undefined

async function allocated(path: string): Promise<number> {
  const stats = await ifThere(stat(path))
  return stats === undefined ? 0 : allocatedBytes(stats)
}

/**
 * Returns the bytes that a file takes. XFS also allocates blocks behind the end of a file that grows, and takes them
 * back when it needs room (xfs(5), allocsize).
 */
export const allocatedBytes = ({
  blocks,
  size,
}: {
  readonly blocks: number
  readonly size: number
}): number => Math.min(blocks * BLOCK_BYTES, size)
