import { open, statfs } from '../files/pool-files.ts'
import { verifyMarker, verifyPool } from './pool-marker.ts'
import { storageFault } from '../files/storage-fault.ts'
import type { PoolFigures } from '../../ports/host-figures.ts'
import type { PoolPaths } from './pool-paths.ts'

const MIB = 1024 * 1024

/** Returns the sizes of the file system that has the pool's marker. Throws HostFault `storage_inspection_failed`. */
export async function poolFigures(paths: PoolPaths, poolId: string): Promise<PoolFigures> {
  try {
    const marker = await open(paths.marker, 'r')
    try {
      // Uses the open marker, so that a mount or unmount meanwhile cannot put another file system in its place.
      const { frsize, blocks, bavail } = await statfs(`/proc/self/fd/${marker.fd}`)
      await verifyMarker(marker, poolId)
      await verifyPool(paths, poolId)
      const mib = (count: number): number => Math.floor((count * frsize) / MIB)
      return { poolId, totalMib: mib(blocks), availableMib: mib(bavail) }
    } finally {
      await marker.close()
    }
  } catch (error) {
    throw storageFault(error, 'measuring the storage pool', 'storage_inspection_failed')
  }
}
