import { join } from 'node:path'
import { judgeSavedState } from '../../core/saved/judge-saved-state.ts'
import { corrupt, parseSavedMetadata } from '../../core/saved/saved-metadata.ts'
import type { SavedMetadata } from '../../core/saved/saved-metadata.ts'
import type { SavedState, SavingMonitor, UnusableState } from '../../core/world/saved-state.ts'
import type { VmId } from '../../core/ids.ts'
import { err } from '../../lib/result.ts'
import type { Result } from '../../lib/result.ts'
import { KnownFiles } from '../files/known-files.ts'
import { lstat, readdir } from '../files/pool-files.ts'
import { MEMORY, SAVE, SAVED, SAVED_UNFINISHED, metadataPath } from '../pool/pool-paths.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { diskIdentity, holdsMemory } from './prepare-saved.ts'
import { ifThere } from '../files/storage-fault.ts'

/** Reads the metadata of saved states. */
export class SavedMetadataFiles {
  readonly #files = new KnownFiles(parseSavedMetadata, ({ ok }) => ok)
  readonly #paths: PoolPaths

  constructor(paths: PoolPaths) {
    this.#paths = paths
  }

  async read(id: VmId): Promise<Result<SavedMetadata, UnusableState>> {
    return (await ifThere(this.#files.read(this.#path(id)))) ?? err(corrupt('its metadata is gone'))
  }

  forget(id: VmId): void {
    this.#files.forget(this.#path(id))
  }

  #path(id: VmId): string {
    return metadataPath(this.#paths.saved(id))
  }
}

type Looking = { readonly paths: PoolPaths; readonly metadata: SavedMetadataFiles }

/**
 * Inspects the saved state of a VM. For a VM that never slept it costs two directory looks. Throws what those throw.
 */
export async function lookForSaved(looking: Looking, id: VmId, monitor: SavingMonitor): Promise<SavedState> {
  const { paths } = looking
  const names = (await ifThere(readdir(paths.vm(id)))) ?? []
  if (names.includes(SAVED)) return judge(looking, id, monitor)
  if (names.includes(SAVED_UNFINISHED)) return { kind: 'unfinished' }
  if (!names.includes(SAVE)) return { kind: 'absent' }
  const written = await ifThere(lstat(join(paths.save(id), MEMORY)))
  return { kind: holdsMemory(written) ? 'unfinished' : 'absent' }
}

async function judge(
  { paths, metadata: files }: Looking,
  id: VmId,
  monitor: SavingMonitor,
): Promise<SavedState> {
  const [metadata, memory, disk] = await Promise.all([
    files.read(id),
    ifThere(lstat(join(paths.saved(id), MEMORY))),
    diskIdentity(paths.disk(id)),
  ])
  if (!metadata.ok) return metadata.error
  const memoryLengthBytes = memory?.isFile() === true ? memory.size : undefined
  return judgeSavedState(metadata.value, { vmId: id, monitor, memoryLengthBytes, disk })
}
