import type { VmId } from '../../core/ids.ts'
import { sync } from '../files/durable.ts'
import { chmod, chown, mkdir } from '../files/pool-files.ts'
import { PASSAGE_MODE } from './pool-paths.ts'
import type { PoolPaths } from './pool-paths.ts'

/** Makes the directory of a VM's own files. It belongs to root: a monitor can use its files, but not replace them. */
export async function makeVmDirectory(paths: PoolPaths, id: VmId): Promise<void> {
  const path = paths.vm(id)
  await mkdir(path, { recursive: true })
  // A directory that was restored from a backup may have any owner.
  await chown(path, process.geteuid?.() ?? 0, process.getegid?.() ?? 0)
  // The umask reduces the mode that mkdir sets.
  await chmod(path, PASSAGE_MODE)
  await sync(paths.disks)
}
