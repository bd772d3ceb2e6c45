import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { join } from 'node:path'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { SavedMetadata } from '../../core/saved/saved-metadata.ts'
import type { MovedMemory, SavedState, SaveTerms, SavingMonitor } from '../../core/world/saved-state.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import { abortable, never } from '../../lib/abortable.ts'
import { Semaphore, Turns } from '../../lib/semaphore.ts'
import type { Log } from '../../log/log.ts'
import type { IncomingFile } from '../../ports/incoming-file.ts'
import type { SavedStates, SavedWhileFlushing } from '../../ports/saved-states.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import type { BoundedLooks } from '../files/bounded-looks.ts'
import { CheckedMemory } from './checked-memory.ts'
import { checksumOf, FileCutShort } from '../files/checksum.ts'
import { DISCARDED_PREFIX, discardSaved } from '../pool/discard-saved.ts'
import { sync } from '../files/durable.ts'
import type { GatedFile } from '../files/gated-file.ts'
import { KeptDigests, KeptOfVms } from '../rounds/kept-of-streams.ts'
import { SkippedBytes } from '../rounds/skipped-bytes.ts'
import { OpenIncoming } from '../rounds/open-incoming.ts'
import { openOfVm } from '../files/open-of-vm.ts'
import { flushWhile } from './flush-while.ts'
import { memoryFrames } from './memory-frames.ts'
import { lookForSaved, SavedMetadataFiles } from './look-for-saved.ts'
import { lstat, open, removeFile, rename, stat } from '../files/pool-files.ts'
import { MEMORY } from '../pool/pool-paths.ts'
import type { PoolAccess } from '../pool/pool-access.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { prepareSaved, takeOver } from './prepare-saved.ts'
import type { Preparation } from './prepare-saved.ts'
import { emptySaveDirectory, makeMemoryFile, makeSaveDirectory } from './save-directory.ts'
import { ifThere, orStorageFault, storageFault } from '../files/storage-fault.ts'

export type PoolSavedStatesOptions = PoolAccess & {
  readonly log: Log
  /** Replaces {@link sync}. */
  readonly sync?: (path: string) => Promise<void>
}

/** The saved guests in the storage pool, each beside its disk. */
export class PoolSavedStates implements SavedStates {
  readonly #paths: PoolPaths
  readonly #looks: BoundedLooks
  readonly #verifyPool: () => Promise<void>
  readonly #ready: () => Promise<void>
  readonly #log: Log
  readonly #sync: (path: string) => Promise<void>
  readonly #flushes = new Semaphore(limits.saveFlushesMax)
  /**
   * VMs that have no saved state, not even after a power failure. A daemon that died during a removal may have left
   * a saved state that exists only on the disk. A guest continues when a look finds none, so the look must first bring
   * the removal to the disk.
   */
  readonly #durablyAbsent = new Set<VmId>()
  /** The publications that are moving the monitor's file, including those that were given up meanwhile. */
  readonly #takingOver = new Map<VmId, Promise<unknown>>()
  /** Empties the directory of one VM for one save at a time: a caller may have given up, and another one have begun. */
  readonly #making = new Turns<VmId>()
  /** Discards one state of a VM at a time: a removal of its memory waits for a monitor that still changes the file. */
  readonly #discarding = new Turns<VmId>()
  readonly #metadata: SavedMetadataFiles
  readonly #checked = new CheckedMemory(() => performance.now())
  readonly #skipped = new SkippedBytes()
  /** The digests of the streams in which memories leave this host. */
  readonly #digests = new KeptOfVms(() => new KeptDigests())

  constructor({ paths, looks, verify, ready, log, sync: syncPath = sync }: PoolSavedStatesOptions) {
    this.#paths = paths
    this.#metadata = new SavedMetadataFiles(paths)
    this.#looks = looks
    this.#verifyPool = verify
    this.#ready = ready
    this.#log = log
    this.#sync = syncPath
  }

  /** Drops what is kept in memory about a VM. Must be called when the VM's directory is removed. */
  forget(id: VmId): void {
    this.#durablyAbsent.delete(id)
    this.#metadata.forget(id)
    this.#checked.forget(id)
    this.#digests.forget(id)
  }

  inspect(id: VmId, monitor: SavingMonitor): Promise<SavedState> {
    return this.#looks.take(`inspecting the saved state of VM ${id}`, async () => {
      await this.#verifyPool()
      const found = await lookForSaved({ paths: this.#paths, metadata: this.#metadata }, id, monitor)
      if (found.kind === 'absent') await this.#ensureAbsenceDurable(id)
      return found
    })
  }

  async #ensureAbsenceDurable(id: VmId): Promise<void> {
    if (!this.#durablyAbsent.has(id)) await this.#syncAbsence(id)
    // As in Pool: a state that went out of sight meanwhile is not reported as absent.
    await this.#verifyPool()
  }

  async #syncAbsence(id: VmId): Promise<void> {
    const vm = await ifThere(this.#sync(this.#paths.vm(id)).then(() => true))
    if (vm === true) this.#durablyAbsent.add(id)
  }

  ensureDirectory(id: VmId): Promise<void> {
    return this.#making.run(id, () => this.#ensureDirectory(id), never)
  }

  async #ensureDirectory(id: VmId): Promise<void> {
    await this.#ready()
    await this.#takingOver.get(id)?.catch(() => {})
    await orStorageFault(`making the directory for the saves of VM ${id}`, async () => {
      if ((await ifThere(stat(this.#paths.save(id)))) === undefined) {
        await makeSaveDirectory(this.#paths, id)
        // A VM without this directory was never saved. So the same sync makes the absence of a saved state durable.
        await this.#syncAbsence(id)
      }
      await emptySaveDirectory(this.#paths, id)
      this.#discard(id, await this.#retire(this.#paths.savedUnfinished(id)))
    })
  }

  async ensureMemoryFile(id: VmId, userId: UserId): Promise<void> {
    const file = await this.#makeMemoryFile(id, userId, 0)
    await file.close()
  }

  async openIncoming(id: VmId, userId: UserId, lengthBytes: number): Promise<IncomingFile> {
    const file = await this.#makeMemoryFile(id, userId, lengthBytes)
    return new OpenIncoming({ file, lengthBytes, about: `the memory of VM ${id}` })
  }

  #makeMemoryFile(id: VmId, userId: UserId, lengthBytes: number): Promise<GatedFile> {
    const make = async (): Promise<GatedFile> => {
      await this.#ensureDirectory(id)
      return orStorageFault(`making the file for the memory of VM ${id}`, () =>
        makeMemoryFile(this.#paths, id, { userId, lengthBytes }),
      )
    }
    return this.#making.run(id, make, never)
  }

  async flushingWhile<T>(id: VmId, saving: () => Promise<T>): Promise<SavedWhileFlushing<T>> {
    const doing = `flushing the memory of VM ${id}`
    const file = await orStorageFault(doing, () => openOfVm(this.paths(id).writing))
    return flushWhile(file, saving, { doing, flushes: this.#flushes })
  }

  paths(id: VmId): { readonly directory: string; readonly writing: string; readonly published: string } {
    const directory = this.#paths.save(id)
    return { directory, writing: join(directory, MEMORY), published: join(this.#paths.saved(id), MEMORY) }
  }

  async publish(
    id: VmId,
    terms: SaveTerms,
    signal: AbortSignal,
    flushed: Promise<void> = Promise.resolve(),
  ): Promise<{ readonly storedBytes: number }> {
    const doing = `publishing the saved state of VM ${id}`
    signal.throwIfAborted()
    let tooLate = false
    try {
      const { memory } = await abortable(this.#prepare({ id, terms, doing, signal, flushed }), signal)
      signal.throwIfAborted()
      tooLate = true
      this.#durablyAbsent.delete(id)
      await rename(this.#paths.savedUnfinished(id), this.#paths.saved(id))
      await this.#sync(this.#paths.vm(id))
      return { storedBytes: memory.storedBytes }
    } catch (error) {
      if (!tooLate) signal.throwIfAborted()
      throw storageFault(error, doing)
    }
  }

  async #prepare(rest: Omit<Preparation, 'paths' | 'flushes' | 'checked'>): Promise<SavedMetadata> {
    const preparation = { ...rest, paths: this.#paths, flushes: this.#flushes, checked: this.#checked }
    const { id } = rest
    const taking = this.#takeOver(preparation, this.#takingOver.get(id))
    this.#takingOver.set(id, taking)
    try {
      await taking
    } finally {
      if (this.#takingOver.get(id) === taking) this.#takingOver.delete(id)
    }
    return prepareSaved(preparation)
  }

  async #takeOver(preparation: Preparation, before: Promise<unknown> | undefined): Promise<void> {
    await this.#ready()
    await before?.catch(() => {})
    preparation.signal.throwIfAborted()
    const { id } = preparation
    this.#discard(id, await this.#retire(this.#paths.savedUnfinished(id)))
    await takeOver(preparation)
  }

  async verify(id: VmId, signal: AbortSignal): Promise<void> {
    const doing = `checking the saved memory of VM ${id}`
    signal.throwIfAborted()
    try {
      await this.#looks.take(doing, this.#verifyPool)
      const metadata = await this.#metadata.read(id)
      if (!metadata.ok) throw corruptFault(doing, metadata.error.because)
      const path = this.paths(id).published
      const file = await ifThere(open(path, constants.O_RDONLY | constants.O_NOFOLLOW))
      if (file === undefined) throw corruptFault(doing, 'it is gone')
      try {
        if (await this.#holds(file, id, metadata.value.memory, signal)) return
        // If a read gave a wrong checksum, earlier results are not trusted either.
        this.#checked.forget(id)
        throw corruptFault(doing, 'it is not as it was saved')
      } finally {
        await file.close()
      }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof FileCutShort) throw corruptFault(doing, error.message)
      throw storageFault(error, doing)
    }
  }

  /** Returns whether a file has a memory of this length and checksum. Reads it, unless that is known already. */
  async #holds(
    file: GatedFile,
    id: VmId,
    { lengthBytes, crc32 }: SavedMetadata['memory'],
    signal: AbortSignal,
  ): Promise<boolean> {
    const now = await file.stat({ bigint: true })
    if (now.size !== BigInt(lengthBytes)) return false
    const known = this.#checked.crc32Of(id, now)
    if (known !== undefined) return known === crc32
    const progress = this.#checked.progressOf(id, now)
    return (await checksumOf(file, lengthBytes, signal, progress)) === crc32
  }

  describe(id: VmId): Promise<MovedMemory | undefined> {
    const doing = `describing the saved state of VM ${id}`
    return this.#looks.take(doing, async () => {
      const published = await ifThere(stat(this.#paths.saved(id)))
      const metadata = published && (await this.#metadata.read(id))
      // As in `inspect`: a state that went out of sight is not reported as absent.
      await this.#verifyPool()
      if (metadata === undefined) return undefined
      if (!metadata.ok) throw corruptFault(doing, metadata.error.because)
      const { savedAtMs, monitor, compute, memory } = metadata.value
      return { lengthBytes: memory.lengthBytes, terms: { savedAtMs, monitor, compute } }
    })
  }

  async *frames(id: VmId, from: number, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
    await this.verify(id, signal)
    const doing = `reading the saved memory of VM ${id}`
    try {
      const kept = { digests: this.#digests, skipped: this.#skipped }
      yield* memoryFrames({ id, path: this.paths(id).published, ...kept, from, signal })
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof FileCutShort) throw corruptFault(doing, error.message)
      if (hasErrno(error, 'ENOENT')) throw corruptFault(doing, 'it is gone')
      throw storageFault(error, doing)
    }
  }

  async removePublished(id: VmId): Promise<void> {
    await this.#ready()
    await orStorageFault(`removing the published state of VM ${id}`, async () => {
      // Until the removal is on the disk, each caller makes sure of it, even if there is nothing to move away.
      const isGoneForGood = this.#durablyAbsent.delete(id)
      const retired = await this.#retire(this.#paths.saved(id))
      this.#metadata.forget(id)
      this.#checked.forget(id)
      this.#digests.forget(id)
      if (isGoneForGood && retired === undefined) {
        // A save that was given up before its publication comes here. A flush of what it has written would delay the
        // guest.
        this.#durablyAbsent.add(id)
        return
      }
      await this.#syncAbsence(id)
      // The space is freed later: that keeps the disk busy, on which flushes wait, and a core that the guest can use.
      setTimeout(() => this.#discard(id, retired), limits.savedDiscardMs).unref()
    })
  }

  async remove(id: VmId): Promise<void> {
    // The published state goes first, because the start of the guest waits for that.
    await this.removePublished(id)
    await this.#takingOver.get(id)?.catch(() => {})
    await orStorageFault(`removing the unfinished save of VM ${id}`, () => this.#removeUnfinished(id))
  }

  async #removeUnfinished(id: VmId): Promise<void> {
    this.#discard(id, await this.#retire(this.#paths.savedUnfinished(id)))
    const { writing } = this.paths(id)
    if ((await ifThere(lstat(writing)))?.isFile() === true) await removeFile(writing)
  }

  /** Moves a directory out of the VM's in one step, and returns its new path; undefined if there is none. */
  async #retire(path: string): Promise<string | undefined> {
    const retired = join(this.#paths.tmp, `${DISCARDED_PREFIX}${randomUUID()}`)
    return ifThere(rename(path, retired).then(() => retired))
  }

  #discard(id: VmId, retired: string | undefined): void {
    if (retired === undefined) return
    this.#discarding
      .run(id, () => discardSaved(retired), never)
      .catch((error: unknown) => {
        // The next start of the daemon removes it.
        this.#log.warn({ error }, 'remains of a saved state not removed')
      })
  }
}

const corruptFault = (doing: string, because: string): HostFault =>
  new HostFault('saved_state_corrupt', doing, { cause: new Error(because) })
