/**
 * Prepares the directory into which a monitor saves its guest. The directory belongs to root. The monitor's user owns
 * one file in it, which exists only during a save. So a monitor that its guest has taken over cannot make a file, link
 * or directory in the pool.
 */
import { join } from 'node:path'
import type { UserId, VmId } from '../../core/ids.ts'
import type { GatedFile } from '../files/gated-file.ts'
import { chmod, chown, mkdir, open, readdir, stat, unlink } from '../files/pool-files.ts'
import { MEMORY, PASSAGE_MODE } from '../pool/pool-paths.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { makeVmDirectory } from '../pool/vm-directory.ts'
import { hasErrno } from '../ffi/errno-error.ts'

/** The mode of the memory file while the monitor writes it. */
const WRITING_MODE = 0o600
const PERMISSIONS = 0o7777

/** Makes the directory of a VM that has none. */
export async function makeSaveDirectory(paths: PoolPaths, id: VmId): Promise<void> {
  await makeVmDirectory(paths, id)
  await mkdir(paths.save(id), { mode: PASSAGE_MODE })
}

/** Gives the directory to root, and empties it. An older daemon gave it to the monitor's user. */
export async function emptySaveDirectory(paths: PoolPaths, id: VmId): Promise<void> {
  const path = paths.save(id)
  const [user, group] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0]
  const { uid, gid, mode } = await stat(path)
  // The owner changes first, so that a monitor of an older daemon cannot replace what is removed.
  if (uid !== user || gid !== group) await chown(path, user, group)
  // The umask reduces the mode that mkdir sets.
  if ((mode & PERMISSIONS) !== PASSAGE_MODE) await chmod(path, PASSAGE_MODE)
  for (const name of await readdir(path)) await removeEntry(join(path, name))
}

/**
 * Makes the file for memory, which the monitor can write, and returns it open. It has no data. The directory must be
 * empty.
 */
export async function makeMemoryFile(
  paths: PoolPaths,
  id: VmId,
  { userId, lengthBytes }: { readonly userId: UserId; readonly lengthBytes: number },
): Promise<GatedFile> {
  const file = await open(join(paths.save(id), MEMORY), 'wx', WRITING_MODE)
  try {
    await file.chown(userId, userId)
    if (lengthBytes > 0) await file.truncate(lengthBytes)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/**
 * Removes a file. Leaves directories, which only a monitor of an older daemon made: that monitor may still change what
 * is in them.
 */
async function removeEntry(path: string): Promise<void> {
  try {
    await unlink(path)
  } catch (error) {
    // Linux returns EISDIR (unlink(2)), POSIX says EPERM.
    if (!hasErrno(error, 'EISDIR', 'EPERM')) throw error
  }
}
