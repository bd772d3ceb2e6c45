import { dirname } from 'node:path'
import { hasErrno } from '../ffi/errno-error.ts'
import { openOfVm } from './open-of-vm.ts'
import { link, open, removeFile, rename, unlink } from './pool-files.ts'
import type { GatedFile } from './gated-file.ts'

/** Makes the content of a file, or the names in a directory, last through a power failure (fsync(2)). */
export const sync = async (path: string): Promise<void> => syncAndClose(await open(path, 'r'))

/** Makes the content of a file of a VM last as {@link sync} does. */
export const syncOfVm = async (path: string): Promise<void> => syncAndClose(await openOfVm(path))

async function syncAndClose(handle: GatedFile): Promise<void> {
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export type NewFile = {
  /** The umask reduces it. */
  readonly mode: number
  /** The user and the group that own the file; absent: those of this process. */
  readonly owner?: number
}

/** Makes a file whose content lasts through a power failure. The path must be free. */
export async function writeSynced(
  path: string,
  content: string | Uint8Array,
  { mode, owner }: NewFile,
): Promise<void> {
  // One open file, because each call takes a turn of a thread.
  const file = await open(path, 'wx', mode)
  try {
    await file.writeFile(content)
    if (owner !== undefined) await file.chown(owner, owner)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Gives a file its name, which then lasts through a power failure. The content of the file must do so already. */
export async function giveName(temporary: string, path: string): Promise<void> {
  await rename(temporary, path)
  await sync(dirname(path))
}

/** Gives a finished file its name atomically: after a power failure the name has the whole file, or does not exist. */
export async function publish(temporary: string, path: string): Promise<void> {
  await sync(temporary)
  await giveName(temporary, path)
}

/** Does work that gives a temporary file its name, and removes the file if that fails. */
export async function orRemove<T>(temporary: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await removeFile(temporary)
    throw error
  }
}

/** {@link sync}; a test may delay it. */
export type Sync = (path: string) => Promise<void>

export type FirstPublication = {
  readonly temporary: string
  readonly path: string
  readonly signal: AbortSignal
  readonly sync: Sync
}

/**
 * Gives a finished file its name as {@link publish} does, but never replaces a file that has that name: rename(2)
 * would, link(2) fails with EEXIST. Returns false if there is such a file. The signal counts until the name is given,
 * since a sync may take minutes.
 */
export async function publishFirst({
  temporary,
  path,
  signal,
  sync: syncFile,
}: FirstPublication): Promise<boolean> {
  await syncFile(temporary)
  signal.throwIfAborted()
  try {
    await link(temporary, path)
  } catch (error) {
    if (hasErrno(error, 'EEXIST')) return false
    throw error
  }
  await unlink(temporary)
  await sync(dirname(path))
  return true
}
