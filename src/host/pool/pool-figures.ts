import { open, readdir, stat, statfs } from 'node:fs/promises'
import { parseSha256 } from '../../core/vm/ids.ts'
import { verifyMarker, verifyPool } from './pool-marker.ts'
import { ifThere, storageFault } from './storage-fault.ts'
import type { PoolFigures, PoolImage } from '../../ports/host-figures.ts'
import type { PoolPaths } from './pool-paths.ts'

const MIB = 1024 * 1024

/** Sizes of the file system that the pool's marker lies on. Throws HostFault `storage_inspection_failed`. */
export async function poolFigures(paths: PoolPaths, poolId: string): Promise<PoolFigures> {
  try {
    const marker = await open(paths.marker)
    try {
      // Through the open marker, so that a mount or an unmount meanwhile cannot put another file system in its place.
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

/** The published images of a pool by digest. Throws HostFault `storage_inspection_failed`. */
export async function poolImages(paths: PoolPaths, poolId: string): Promise<readonly PoolImage[]> {
  try {
    const digests = (await readdir(paths.images)).map(parseSha256).filter((name) => name !== undefined)
    const sizes = await Promise.all(digests.map((sha256) => ifThere(stat(paths.image(sha256)))))
    // After looking: what is out of sight is not called absent.
    await verifyPool(paths, poolId)
    return digests
      .flatMap((sha256, index) => {
        const size = sizes[index]?.size
        return size === undefined ? [] : [{ sha256, sizeMib: Math.ceil(size / MIB) }]
      })
      .toSorted((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
  } catch (error) {
    throw storageFault(error, 'listing the images of the storage pool', 'storage_inspection_failed')
  }
}
