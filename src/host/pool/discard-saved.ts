import { join } from 'node:path'
import { lstat, removeFile, rmdir, truncate } from './pool-files.ts'
import { MEMORY } from './pool-paths.ts'
import { metadataPath } from './prepare-saved.ts'
import { errnoOf, ifThere } from './storage-fault.ts'

/** In the pool's `tmp`, before the name of a saved state that is to be discarded. */
export const DISCARDED_PREFIX = 'saved-'

/**
 * Frees what a saved state took. The memory is emptied before it loses its name: it is still bound into the unit of a
 * guest that went on from it, and would take its space until that unit ends.
 */
export async function discardSaved(directory: string): Promise<void> {
  const memory = join(directory, MEMORY)
  await emptySaved(directory)
  for (const path of [memory, metadataPath(directory)]) await removeFile(path)
  try {
    await rmdir(directory)
  } catch (error) {
    // A start of the daemon sweeps the same place.
    if (errnoOf(error) !== 'ENOENT') throw error
  }
}

/** Frees the space of a saved state, whoever still has it open. */
export async function emptySaved(directory: string): Promise<void> {
  const memory = join(directory, MEMORY)
  const found = await ifThere(lstat(memory))
  // Before it was checked it was the monitor's, and may be a link to anything.
  if (found?.isFile() === true && found.nlink === 1) await ifThere(truncate(memory))
}
