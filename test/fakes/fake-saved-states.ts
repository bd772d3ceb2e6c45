import { HostFault } from '../../src/core/errors.ts'
import { judgeSavedState } from '../../src/core/saved/judge-saved-state.ts'
import type { SavedMetadata } from '../../src/core/saved/saved-metadata.ts'
import type { MovedMemory, SavedState, SaveTerms, SavingMonitor } from '../../src/core/world/saved-state.ts'
import type { UserId, VmId } from '../../src/core/ids.ts'
import type { Frame } from '../../src/core/migration/frames.ts'
import { assert } from '../../src/lib/assert.ts'
import type { IncomingFile } from '../../src/ports/incoming-file.ts'
import type { SavedStates, SavedWhileFlushing } from '../../src/ports/saved-states.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'
import { fileOf, framesOf, piecesOf } from './moved-memory.ts'
import type { SavedFile, SavedFiles } from './saved-files.ts'

export type SavedStatesMethod =
  | 'inspect'
  | 'ensureDirectory'
  | 'ensureMemoryFile'
  | 'flushingWhile'
  | 'publish'
  | 'verify'
  | 'describe'
  | 'frames'
  | 'openIncoming'
  | 'write'
  | 'flush'
  | 'removePublished'
  | 'remove'

export type FakeSavedStatesOptions = {
  /** Files that monitors write to and read from. */
  readonly files: SavedFiles
  /** Version of a VM's disk, which each write to it changes; undefined if the disk is gone. */
  readonly diskOf?: (id: VmId) => number | undefined
}

const MIB = 1024 * 1024
/** Bytes that every saved guest takes. */
const STORED_MIB = 84

/** The file that lies in the place of a memory that has not come completely. */
const unfinished = (id: VmId): SavedFile => ({ id, memory: { life: 0, progress: 0 }, whole: false })

/** Saved guests in memory; written files outlive the daemon, as `files` does. */
export class FakeSavedStates implements SavedStates {
  readonly #files: SavedFiles
  readonly #diskOf: (id: VmId) => number | undefined
  readonly #published = new Map<VmId, SavedMetadata>()
  readonly #faults = new FaultSwitch<SavedStatesMethod>()
  /** The memory that comes for each VM; an earlier one goes nowhere. */
  readonly #incomingOf = new Map<VmId, Map<number, Uint8Array>>()
  #inSight = true

  constructor({ files, diskOf = () => 0 }: FakeSavedStatesOptions) {
    this.#files = files
    this.#diskOf = diskOf
  }

  failNext(method: SavedStatesMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Lets the next call wait until the returned function is called, or until it is aborted. */
  holdNext(method: SavedStatesMethod): () => void {
    return this.#faults.holdNext(method)
  }

  /** Hides the pool, as an unmount does, or brings it back. */
  setInSight(inSight: boolean): void {
    this.#inSight = inSight
  }

  /** Removes the VM's directory from the pool, with all its content. */
  forget(id: VmId): void {
    this.#clear(id)
  }

  /** Returns the published state of a VM, as it was written. */
  metadataOf(id: VmId): SavedMetadata | undefined {
    return this.#published.get(id)
  }

  inspect(id: VmId, monitor: SavingMonitor): Promise<SavedState> {
    return this.#faults.run('inspect', () => {
      this.#look()
      const saved = this.#published.get(id)
      const { writing, published } = this.paths(id)
      if (saved !== undefined) {
        const memoryLengthBytes =
          this.#files.at(published) === undefined ? undefined : saved.memory.lengthBytes
        return judgeSavedState(saved, { vmId: id, monitor, memoryLengthBytes, disk: this.#disk(id) })
      }
      return { kind: this.#files.at(writing) === undefined ? 'absent' : 'unfinished' }
    })
  }

  ensureDirectory(id: VmId): Promise<void> {
    return this.#faults.run('ensureDirectory', () => this.#sweep(id))
  }

  async flushingWhile<T>(_id: VmId, saving: () => Promise<T>): Promise<SavedWhileFlushing<T>> {
    const saved = await saving()
    const flushed = this.#faults.run('flushingWhile', () => {})
    // Reported to the caller that waits.
    flushed.catch(() => {})
    return { saved, flushed }
  }

  /** Makes no file here: an empty file does not count as a save. */
  ensureMemoryFile(id: VmId, _userId: UserId): Promise<void> {
    return this.#faults.run('ensureMemoryFile', () => this.#sweep(id))
  }

  paths(id: VmId): { readonly directory: string; readonly writing: string; readonly published: string } {
    const directory = `/pool/disks/${id}/save`
    return { directory, writing: `${directory}/memory`, published: `/pool/disks/${id}/saved/memory` }
  }

  publish(
    id: VmId,
    terms: SaveTerms,
    signal: AbortSignal,
    flushed?: Promise<void>,
  ): Promise<{ readonly storedBytes: number }> {
    const move = async (): Promise<{ readonly storedBytes: number }> => {
      await flushed
      this.#look()
      const { writing, published } = this.paths(id)
      const disk = this.#disk(id)
      if (this.#files.at(writing) === undefined || disk === undefined)
        throw new HostFault('save_failed', `publishing the saved state of VM ${id}`)
      this.#files.move(writing, published)
      const lengthBytes = terms.compute.memoryMib * MIB
      const memory = { lengthBytes, storedBytes: STORED_MIB * MIB, crc32: 0 }
      this.#published.set(id, { ...terms, vmId: id, memory, disk })
      return { storedBytes: memory.storedBytes }
    }
    return this.#faults.run('publish', move, signal)
  }

  /** Reading takes no time here. */
  verify(id: VmId, signal: AbortSignal): Promise<void> {
    return this.#faults.run('verify', () => void this.#checked(id), signal)
  }

  /** Returns the published file, if it is whole. */
  #checked(id: VmId): SavedFile {
    this.#look()
    const file = this.#files.at(this.paths(id).published)
    if (file?.whole === true) return file
    throw new HostFault('saved_state_corrupt', `checking the saved memory of VM ${id}`)
  }

  describe(id: VmId): Promise<MovedMemory | undefined> {
    return this.#faults.run('describe', () => {
      this.#look()
      const saved = this.#published.get(id)
      if (saved === undefined) return undefined
      const { savedAtMs, monitor, compute, memory } = saved
      return { lengthBytes: memory.lengthBytes, terms: { savedAtMs, monitor, compute } }
    })
  }

  async *frames(id: VmId, from: number, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
    const pieces = await this.#faults.run(
      'frames',
      () => piecesOf(this.#checked(id), this.#published.get(id)?.memory.lengthBytes ?? 0),
      signal,
    )
    for (const { offset, bytes } of framesOf(pieces))
      if (offset >= from) yield await this.#faults.run('frames', () => bytes, signal)
  }

  openIncoming(id: VmId, _userId: UserId, lengthBytes: number): Promise<IncomingFile> {
    return this.#faults.run('openIncoming', () => {
      this.#sweep(id)
      this.#files.write(this.paths(id).writing, unfinished(id))
      return this.#incoming(id, lengthBytes)
    })
  }

  #incoming(id: VmId, lengthBytes: number): IncomingFile {
    const { writing } = this.paths(id)
    const pieces = new Map<number, Uint8Array>()
    this.#incomingOf.set(id, pieces)
    let hasFailed = false
    const run = async (method: 'write' | 'flush', effect: () => void): Promise<void> => {
      if (hasFailed) throw new HostFault('storage_failed', `writing to the memory of VM ${id}`)
      try {
        await this.#faults.run(method, effect)
      } catch (error) {
        hasFailed = true
        throw error
      }
    }
    const put = (frame: Frame): void => {
      if (frame.kind === 'data') pieces.set(frame.offset, Uint8Array.from(frame.bytes))
      else pieces.delete(frame.offset)
      if (this.#incomingOf.get(id) === pieces)
        this.#files.write(writing, fileOf(pieces, lengthBytes) ?? unfinished(id))
    }
    return {
      write: async (frame) => {
        assert(frame.offset + frame.length <= lengthBytes, 'a frame lies within its file')
        await run('write', () => put(frame))
      },
      flush: () => run('flush', () => {}),
      close: async () => {},
    }
  }

  removePublished(id: VmId): Promise<void> {
    return this.#faults.run('removePublished', () => {
      this.#look()
      this.#published.delete(id)
      this.#files.remove(this.paths(id).published)
    })
  }

  remove(id: VmId): Promise<void> {
    return this.#faults.run('remove', () => {
      this.#look()
      this.#clear(id)
    })
  }

  #sweep(id: VmId): void {
    this.#look()
    this.#files.remove(this.paths(id).writing)
  }

  #clear(id: VmId): void {
    this.#published.delete(id)
    const { writing, published } = this.paths(id)
    for (const path of [writing, published]) this.#files.remove(path)
  }

  #disk(id: VmId): SavedMetadata['disk'] | undefined {
    const writes = this.#diskOf(id)
    return writes === undefined ? undefined : { inode: 1n, sizeBytes: MIB, modifiedNs: BigInt(writes) }
  }

  #look(): void {
    if (!this.#inSight) throw new HostFault('storage_inspection_failed', 'looking for the storage pool')
  }
}
