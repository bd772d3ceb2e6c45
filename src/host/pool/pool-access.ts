import { join } from 'node:path'
import { limits } from '../../config/limits.ts'
import { SharedLook } from '../../lib/shared-look.ts'
import { BoundedLooks } from '../files/bounded-looks.ts'
import { lstat, readdir, removeTree } from '../files/pool-files.ts'
import { ifThere, orStorageFault } from '../files/storage-fault.ts'
import { DISCARDED_PREFIX, emptySaved } from './discard-saved.ts'
import { PoolSight } from './pool-marker.ts'
import { poolPaths, REMOVED_PREFIX } from './pool-paths.ts'
import type { PoolPaths } from './pool-paths.ts'

/** The parts that all drivers of one pool share. */
export type PoolAccess = {
  readonly paths: PoolPaths
  /**
   * Checks that this is the pool, whole and in sight. What was looked at before the call was then in the pool, because
   * the check begins after the call. Calls at the same time share one. Throws HostFault `storage_inspection_failed`.
   */
  readonly verify: () => Promise<void>
  /** The pool's looks. All of them together hold only a limited number of threads. */
  readonly looks: BoundedLooks
  /**
   * Must precede every change: checks that the pool is in sight, and removes what an earlier run left unfinished, and
   * from time to time what this run did. Throws HostFault.
   */
  readonly ready: () => Promise<void>
}

/**
 * @param poolId the id that `markPool` returned at set-up
 * @param nowMs a monotonic clock
 */
export function accessPool(
  directory: string,
  poolId: string,
  nowMs: () => number = () => performance.now(),
): PoolAccess {
  const paths = poolPaths(directory)
  const looks = new BoundedLooks({ code: 'storage_inspection_failed', places: limits.poolLooksMax })
  const sight = new PoolSight(paths, poolId)
  const checks = new SharedLook(() => sight.verify())
  const verify = (): Promise<void> => checks.take()
  let swept: Promise<void> | undefined
  let sweptAtMs = nowMs()
  /**
   * Removes what a removal could not remove after it had given it another name, and files that nothing makes any more:
   * a pool that did not answer kept them. Nothing else knows of either. It may be being removed right now, which two
   * can do at once. A failure was reported then, and the next sweep tries again.
   */
  const sweepLeft = (): void => {
    if (nowMs() - sweptAtMs < limits.poolSweepMs) return
    sweptAtMs = nowMs()
    void sweep(paths, isLeft).catch(() => {})
  }
  const ready = async (): Promise<void> => {
    await looks.take('looking for the storage pool', verify)
    swept ??= sweep(paths).catch((error: unknown) => {
      swept = undefined
      throw error
    })
    await swept
    sweepLeft()
  }
  return { paths, looks, verify, ready }
}

type IsLeft = (name: string, path: string) => boolean | Promise<boolean>

/** Returns whether something in `tmp` is of no use to this run. */
const isLeft: IsLeft = async (name, path) => {
  if (name.startsWith(REMOVED_PREFIX)) return true
  const writtenAtMs = (await ifThere(lstat(path)))?.mtimeMs ?? Infinity
  return Date.now() - writtenAtMs > limits.poolUnfinishedMs
}

const sweep = ({ tmp }: PoolPaths, isUseless: IsLeft = () => true): Promise<void> =>
  orStorageFault('clearing what was left half-made in the storage pool', async () => {
    for (const name of await readdir(tmp)) {
      const path = join(tmp, name)
      if (!(await isUseless(name, path))) continue
      if (name.startsWith(DISCARDED_PREFIX)) await emptySaved(path)
      await removeTree(path)
    }
  })
