import { open, statfs } from '../files/pool-files.ts'
import { verifyMarker, verifyPool } from './pool-marker.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { PoolFigures } from '../../ports/host-figures.ts'
import type { PoolPaths } from './pool-paths.ts'

/** Returns the sizes of the file system that has the pool's marker. Throws errors of system calls, and HostFault. */
export async function poolFigures(paths: PoolPaths, poolId: string): Promise<PoolFigures> {
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
}
