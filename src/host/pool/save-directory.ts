/**
 * Where a monitor saves its guest. The directory is root's, and the monitor's user owns one file in it, which is there for
 * a save alone: a monitor that its guest has taken over can make no file, link or directory in the pool.
 */
import { join } from 'node:path'
import type { UserId, VmId } from '../../core/vm/ids.ts'
import { chmod, chown, mkdir, open, readdir, stat, unlink } from './pool-files.ts'
import { MEMORY, PASSAGE_MODE } from './pool-paths.ts'
import type { PoolPaths } from './pool-paths.ts'
import { errnoOf } from './storage-fault.ts'
import { makeVmDirectory } from './vm-directory.ts'

/** Of the memory while its monitor writes it. */
const WRITING_MODE = 0o600
const PERMISSIONS = 0o7777

/** Makes the directory of a VM that has none. */
export async function makeSaveDirectory(paths: PoolPaths, id: VmId): Promise<void> {
  await makeVmDirectory(paths, id)
  await mkdir(paths.save(id), { mode: PASSAGE_MODE })
}

/** Makes the directory root's, and removes what is in it. An older daemon gave it to the monitor's user. */
export async function emptySaveDirectory(paths: PoolPaths, id: VmId): Promise<void> {
  const path = paths.save(id)
  const [user, group] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0]
  const { uid, gid, mode } = await stat(path)
  // First, so that a monitor of an older daemon puts nothing in the place of what is removed.
  if (uid !== user || gid !== group) await chown(path, user, group)
  // The mode that mkdir takes is cut by the umask.
  if ((mode & PERMISSIONS) !== PASSAGE_MODE) await chmod(path, PASSAGE_MODE)
  for (const name of await readdir(path)) await removeEntry(join(path, name))
}

/** Makes the empty file into which the monitor writes memory. The directory must be empty. */
export async function makeMemoryFile(paths: PoolPaths, id: VmId, userId: UserId): Promise<void> {
  const handle = await open(join(paths.save(id), MEMORY), 'wx', WRITING_MODE)
  try {
    await handle.chown(userId, userId)
  } finally {
    await handle.close()
  }
}

/** Leaves directories, which only a monitor of an older daemon made: it may still change what is in them. */
async function removeEntry(path: string): Promise<void> {
  try {
    await unlink(path)
  } catch (error) {
    if (!UNLINK_OF_DIRECTORY.has(errnoOf(error))) throw error
  }
}

/** Linux says the first (unlink(2)), POSIX the second. */
const UNLINK_OF_DIRECTORY: ReadonlySet<string | undefined> = new Set(['EISDIR', 'EPERM'])
