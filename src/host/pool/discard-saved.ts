import { constants } from 'node:fs'
import { join } from 'node:path'
import { openOfVm } from '../files/open-of-vm.ts'
import { lstat, readFile, removeFile, rmdir } from '../files/pool-files.ts'
import { MEMORY, metadataPath } from './pool-paths.ts'
import { parseSavedMetadata } from '../../core/saved/saved-metadata.ts'
import { ifThere } from '../files/storage-fault.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import type { GatedFile } from '../files/gated-file.ts'

/** The name prefix in the pool's `tmp` of a saved state that will be discarded. */
export const DISCARDED_PREFIX = 'saved-'

/**
 * Removes a saved state. Its space is free at once, unless a monitor goes on reading the memory, or holds a lease on
 * it: then it is free when that monitor ends.
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

/**
 * Frees the space of a saved state before its name is removed. The file is still mounted into the unit of a guest that
 * was restored from it, and would keep its space until that unit ends.
 */
export async function emptySaved(directory: string): Promise<void> {
  const memory = join(directory, MEMORY)
  const found = await ifThere(lstat(memory))
  // Before the check, the file was the monitor's, and may be a link to anything.
  const isOwn = found?.isFile() === true && found.nlink === 1
  if (isOwn && !(await mayBackGuest(directory))) await ifThere(empty(memory))
}

/**
 * Cuts off all of a file that was a monitor's, unless there is a lease on it. truncate(2) would wait 45 s for the
 * lease. ftruncate(2) does not, and nothing can take a lease on a file that is open to write.
 */
async function empty(path: string): Promise<void> {
  const file = await openUnlessLeased(path)
  if (file === undefined) return
  try {
    await file.truncate(0)
  } finally {
    await file.close()
  }
}

async function openUnlessLeased(path: string): Promise<GatedFile | undefined> {
  try {
    return await openOfVm(path, constants.O_WRONLY)
  } catch (error) {
    if (hasErrno(error, 'EAGAIN')) return undefined
    throw error
  }
}

/**
 * Returns whether a monitor may go on reading the memory. It would end with SIGBUS at a page that is cut off (mmap(2)).
 * A state without metadata was never published, so no guest was restored from it.
 */
async function mayBackGuest(directory: string): Promise<boolean> {
  const text = await ifThere(readFile(metadataPath(directory), 'utf8'))
  if (text === undefined) return false
  const metadata = parseSavedMetadata(text)
  return !metadata.ok || metadata.value.monitor.form === 'backing'
}
