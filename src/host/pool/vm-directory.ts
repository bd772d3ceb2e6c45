import { parseVmId } from '../../core/ids.ts'
import type { VmId } from '../../core/ids.ts'
import type { Stats } from 'node:fs'
import { sync } from '../files/durable.ts'
import { chmod, chown, mkdir, readdir, removeTree, rename, stat } from '../files/pool-files.ts'
import { ifThere, orStorageFault } from '../files/storage-fault.ts'
import type { PoolAccess } from './pool-access.ts'
import { PASSAGE_MODE, PERMISSIONS, PRIVATE_MODE } from './pool-paths.ts'
import type { PoolPaths } from './pool-paths.ts'

/** Whether a VM's directory is as it was made: a monitor can pass through it, but cannot create files in it. */
export const isAsMade = ({ mode, uid }: Stats): boolean =>
  (mode & PERMISSIONS) === PASSAGE_MODE && uid === process.geteuid?.()

/** Makes a VM's directory. It belongs to root: a monitor can use its files, but not replace them. */
export async function makeVmDirectory(paths: PoolPaths, id: VmId): Promise<void> {
  const path = paths.vm(id)
  const found = await ifThere(stat(path))
  if (found !== undefined && isAsMade(found)) return
  const made = await mkdir(path, { recursive: true, mode: PRIVATE_MODE })
  // A directory that was restored from a backup may have any owner.
  if (made === undefined) await chown(path, process.geteuid?.() ?? 0, process.getegid?.() ?? 0)
  await sync(paths.disks)
  // The mode comes last, so that a directory of this mode lasts through a power failure.
  await chmod(path, PASSAGE_MODE)
}

/** Removes a VM's directory with everything in it; does nothing if there is none. Throws HostFault. */
export function removeVmDirectory(paths: PoolPaths, id: VmId): Promise<void> {
  const removed = paths.removed()
  return orStorageFault(`removing the disks of VM ${id}`, async () => {
    if ((await ifThere(stat(paths.vm(id)))) === undefined) return
    // Moves it away in one step, so that half a removal is never seen. The sweep at start removes what a crash leaves.
    await rename(paths.vm(id), removed)
    await sync(paths.disks)
    await removeTree(removed)
  })
}

/** Returns the VMs that have a directory. Throws HostFault `storage_inspection_failed`. */
export function listVmDirectories({ paths, looks, verify }: PoolAccess): Promise<readonly VmId[]> {
  return looks.take('listing the disks of the storage pool', async () => {
    const names = await readdir(paths.disks)
    await verify()
    return names.map(parseVmId).filter((id) => id !== undefined)
  })
}
