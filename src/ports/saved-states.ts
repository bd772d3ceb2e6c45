import type { SavedState, SaveTerms, SavingMonitor } from '../core/storage/saved-state.ts'
import type { UserId, VmId } from '../core/vm/ids.ts'

/**
 * Saved guests in the pool. One is published whole or not at all: what a crash leaves is `unfinished`. Every method throws
 * HostFault.
 */
export interface SavedStates {
  /**
   * Cheap, and without reading the memory. `monitor`: the program that would restore it; a state that it cannot read, that
   * is of another disk or VM, or whose files are not as they were published is `unusable`.
   */
  inspect(id: VmId, monitor: SavingMonitor): Promise<SavedState>
  /** The VM's own directory for saves: there from then on, empty, and nothing that its monitor can make a file in. */
  ensureDirectory(id: VmId): Promise<void>
  /** Afterwards that directory holds an empty file for the memory, and nothing else. The VM's monitor can write to it. */
  ensureMemoryFile(id: VmId, userId: UserId): Promise<void>
  /** Where the monitor writes memory, and from where it reads it once that is published. Absolute paths. */
  paths(id: VmId): { readonly directory: string; readonly writing: string; readonly published: string }
  /**
   * Flushes and checksums what the monitor wrote, ties it to the disk as it is now, and publishes it. Until this resolves,
   * nothing is saved; abort it and nothing will be, unless it resolves all the same: it was too late then. Where it fails by
   * itself, only a look tells. Resolves to the space that the memory takes in the pool, in bytes.
   */
  publish(id: VmId, terms: SaveTerms, signal: AbortSignal): Promise<{ readonly storedBytes: number }>
  /**
   * Compares the memory with its checksum, unless nothing can have happened to it since this process did so. Throws
   * `saved_state_corrupt`.
   */
  verify(id: VmId, signal: AbortSignal): Promise<void>
  /** Removes what is published: once it resolves no start can find it again. What is unfinished is left to `remove`. */
  removePublished(id: VmId): Promise<void>
  /** Removes what is published and what is unfinished. Once it resolves no start can find it again. */
  remove(id: VmId): Promise<void>
}
