import { join } from 'node:path'
import { lstat, removeFile, rmdir, truncate } from '../files/pool-files.ts'
import { MEMORY, metadataPath } from './pool-paths.ts'
import { ifThere } from '../files/storage-fault.ts'
import { hasErrno } from '../ffi/errno-error.ts'

/** The name prefix in the pool's `tmp` of a saved state that will be discarded. */
export const DISCARDED_PREFIX = 'saved-'

/**
 * Frees the space of a saved state. The memory is emptied before its name is removed. It is still mounted into the unit
 * of a guest that was restored from it, and would keep its space until that unit ends.
 */
export async function discardSaved(directory: string): Promise<void> {
  const memory = join(directory, MEMORY)
  await emptySaved(directory)
  for (const path of [memory, metadataPath(directory)]) await removeFile(path)
  try {
    await rmdir(directory)
  } catch (error) {
    // A starting daemon sweeps the same directory.
    if (!hasErrno(error, 'ENOENT')) throw error
  }
}

/** Frees the space of a saved state, even if a process still has it open. */
export async function emptySaved(directory: string): Promise<void> {
  const memory = join(directory, MEMORY)
  const found = await ifThere(lstat(memory))
  // Before the check, the file was the monitor's, and may be a link to anything.
  if (found?.isFile() === true && found.nlink === 1) await ifThere(truncate(memory))
}
