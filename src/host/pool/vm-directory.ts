import type { VmId } from '../../core/vm/ids.ts'
import { sync } from './durable.ts'
import { chmod, chown, mkdir } from './pool-files.ts'
import { PASSAGE_MODE } from './pool-paths.ts'
import type { PoolPaths } from './pool-paths.ts'

/** The directory of a VM's own files. It is root's: a monitor may use its files, but put nothing in their place. */
export async function makeVmDirectory(paths: PoolPaths, id: VmId): Promise<void> {
  const path = paths.vm(id)
  await mkdir(path, { recursive: true })
  // A directory that was put back from a backup may be anybody's.
  await chown(path, process.geteuid?.() ?? 0, process.getegid?.() ?? 0)
  // The mode that mkdir takes is cut by the umask.
  await chmod(path, PASSAGE_MODE)
  await sync(paths.disks)
}
