import { parseSha256 } from '../../core/ids.ts'
import { readdir, stat } from '../files/pool-files.ts'
import { verifyPool } from '../pool/pool-marker.ts'
import { ifThere, storageFault } from '../files/storage-fault.ts'
import type { StoredImage } from '../../ports/storage.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'

/**
 * Returns the published images of a pool, ordered by digest. A file whose name is not a digest is skipped, and so are
 * unfinished files. Throws HostFault `storage_inspection_failed`.
 */
export async function storedImages(paths: PoolPaths, poolId: string): Promise<readonly StoredImage[]> {
  try {
    const digests = (await readdir(paths.images)).map(parseSha256).filter((name) => name !== undefined)
    const found = await Promise.all(digests.map((sha256) => ifThere(stat(paths.image(sha256)))))
    // This check comes after looking: if the pool is out of sight, no image is reported absent.
    await verifyPool(paths, poolId)
    return digests
      .flatMap((sha256, index) => {
        const stats = found[index]
        // The file was last written when it was fetched. Giving it a name or mode, and cloning it, do not change that
        // time (inode(7)).
        return stats === undefined
          ? []
          : [{ sha256, sizeBytes: stats.size, fetchedAtMs: Math.round(stats.mtimeMs) }]
      })
      .toSorted((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
  } catch (error) {
    throw storageFault(error, 'listing the images of the storage pool', 'storage_inspection_failed')
  }
}
