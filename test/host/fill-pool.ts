import { rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { until } from '../contract/until.ts'
import { run } from './run.ts'

const BLOCK_BYTES = 4096

/**
 * Takes every free block of a file system. Returns a function that frees them, and waits until most of them are free: a
 * guest may write to some at once. It is safe to repeat.
 */
export async function fillPool(mountPoint: string): Promise<() => Promise<void>> {
  const ballast = join(mountPoint, 'ballast')
  const { bavail, bsize } = await statfs(mountPoint)
  let offset = 0
  // The free space cannot be taken in one piece: some of it describes where the rest is.
  for (let bytes = bavail * bsize; bytes >= BLOCK_BYTES;) {
    const { code } = await run(['fallocate', `--offset=${offset}`, `--length=${bytes}`, ballast], {
      okCodes: [0, 1],
    })
    if (code === 0) offset += bytes
    else bytes = Math.floor(bytes / 2 / BLOCK_BYTES) * BLOCK_BYTES
  }
  return async () => {
    await rm(ballast, { force: true })
    // XFS frees the blocks of a removed file in the background (inode inactivation, xfs_inodegc_worker).
    await until(
      () => statfs(mountPoint),
      ({ bavail: free }) => free * bsize > offset / 2,
    )
  }
}
