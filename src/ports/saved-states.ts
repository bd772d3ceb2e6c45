import type { MovedMemory, SavedState, SaveTerms, SavingMonitor } from '../core/world/saved-state.ts'
import type { UserId, VmId } from '../core/ids.ts'
import type { IncomingFile } from './incoming-file.ts'

/** The result of a save, and the end of the last flush: a rejection with HostFault if any flush failed. */
export type SavedWhileFlushing<T> = { readonly saved: T; readonly flushed: Promise<void> }

/**
 * Saved guests in the pool. A saved state is published completely or not at all: a crash leaves an `unfinished` one.
 * Every method throws HostFault.
 */
export interface SavedStates {
  /**
   * Inspects cheaply, without reading the memory. `monitor`: the program that would restore the state. A state is
   * `unusable` if that program cannot read it, if it belongs to another disk or VM, or if its files have changed since
   * they were published.
   */
  inspect(id: VmId, monitor: SavingMonitor): Promise<SavedState>
  /** Makes the VM's own directory for saves: empty, and not writable for its monitor. */
  ensureDirectory(id: VmId): Promise<void>
  /**
   * Makes an empty file for the memory in that directory, and removes everything else. The VM's monitor can write to
   * the file.
   */
  ensureMemoryFile(id: VmId, userId: UserId): Promise<void>
  /**
   * Runs `saving`, in which the monitor writes that file, and meanwhile flushes what has come, so that `publish` has
   * little left to flush. Resolves to the result of `saving`, or rejects as it does, without waiting for the disk.
   * `publish` must get its `flushed`.
   */
  flushingWhile<T>(id: VmId, saving: () => Promise<T>): Promise<SavedWhileFlushing<T>>
  /** The paths to which the monitor writes memory, and from which it reads published memory. Absolute. */
  paths(id: VmId): { readonly directory: string; readonly writing: string; readonly published: string }
  /**
   * Flushes and checksums what the monitor wrote, ties it to the present disk, and publishes it. Nothing is saved until
   * this resolves. After an abort nothing will be saved, unless this still resolves because the abort came too late. If
   * it fails by itself, only another look shows the result. Resolves to the bytes that the memory takes in the pool.
   * Nothing is published before `flushed` resolves.
   */
  publish(
    id: VmId,
    terms: SaveTerms,
    signal: AbortSignal,
    flushed?: Promise<void>,
  ): Promise<{ readonly storedBytes: number }>
  /**
   * Compares the memory with its checksum, unless this process has done so and nothing can have changed it since.
   * Throws `saved_state_corrupt`.
   */
  verify(id: VmId, signal: AbortSignal): Promise<void>
  /** Describes the published state for another host; undefined if there is none. Throws `saved_state_corrupt`. */
  describe(id: VmId): Promise<MovedMemory | undefined>
  /**
   * Reads the published memory as frames and their end (core/migration/frames.ts), without its holes. First compares it
   * with its checksum, as `verify` does. `from` is 0, or the end of a frame after which an earlier stream was cut. Each
   * chunk has whole frames, and is valid until the next one is requested. Throws `saved_state_corrupt`, also if no
   * state is published.
   */
  frames(id: VmId, from: number, signal: AbortSignal): AsyncIterable<Uint8Array>
  /**
   * Makes the file as `ensureMemoryFile` does, with a length and without data, for memory that comes from another host.
   * Each call begins again: what an earlier one has brought is removed. When the file is whole, flushed and closed,
   * `publish` makes it a saved state of the VM's present disk.
   */
  openIncoming(id: VmId, userId: UserId, lengthBytes: number): Promise<IncomingFile>
  /** Removes the published state; afterwards no start can find it. Leaves unfinished states to `remove`. */
  removePublished(id: VmId): Promise<void>
  /** Removes published and unfinished states; afterwards no start can find them. */
  remove(id: VmId): Promise<void>
}
