import { MIB } from '../../lib/byte-units.ts'
import { given } from '../../lib/given.ts'
import type { DiskLimits } from '../desired.ts'
import type { MonitorDisk, MonitorState } from '../world/world.ts'

/**
 * Returns the meaning of `state` in an answer to `GET /` (Firecracker, src/firecracker/swagger/firecracker.yaml,
 * InstanceInfo). A process without a guest waits for the one that it is to restore, because all others start with theirs.
 */
export function firecrackerStateOf(state: string, disk: MonitorDisk): MonitorState {
  switch (state) {
    case 'Running':
      return { kind: 'running', disk }
    case 'Paused':
      return { kind: 'paused', disk }
    case 'Not started':
      return { kind: 'restoring' }
    default:
      return { kind: 'broken', status: state }
  }
}

/** The time in which an empty bucket fills. So a guest that was idle may use one second's worth at once. */
const REFILL_MS = 1000
/** A bucket of this size is removed (RateLimiter::update_buckets). */
const LIFTED: TokenBucket = { size: 0, refill_time: 0 }

type TokenBucket = { readonly size: number; readonly refill_time: number }
export type RateLimiter = { readonly bandwidth?: TokenBucket | null; readonly ops?: TokenBucket | null }

/** Converts limits to Firecracker's terms. A limit that is not named is lifted. Reads and writes count together. */
export const rateLimiterOf = ({ iopsMax, mibPerSecondMax }: DiskLimits): RateLimiter => ({
  bandwidth: mibPerSecondMax === undefined ? LIFTED : bucketOf(mibPerSecondMax * MIB),
  ops: iopsMax === undefined ? LIFTED : bucketOf(iopsMax),
})

const bucketOf = (size: number): TokenBucket => ({ size, refill_time: REFILL_MS })

/** The guest's disk in an answer to `GET /vm/config`. */
export type FirecrackerDisk = { readonly path: string; readonly limits: DiskLimits }

/** Finds a drive in an answer to `GET /vm/config`, with the limits in force; undefined if it is not there. */
export function driveIn(answer: unknown, driveId: string): FirecrackerDisk | undefined {
  const { drives } = (answer ?? {}) as { drives?: unknown }
  const drive = Array.isArray(drives)
    ? (drives as readonly Drive[]).find((one) => one?.drive_id === driveId)
    : undefined
  if (typeof drive?.path_on_host !== 'string') return undefined
  const bytesPerSecond = perSecond(drive.rate_limiter?.bandwidth)
  return {
    path: drive.path_on_host,
    limits: given({
      iopsMax: perSecond(drive.rate_limiter?.ops),
      mibPerSecondMax: bytesPerSecond === undefined ? undefined : bytesPerSecond / MIB,
    }),
  }
}

type Drive = {
  readonly drive_id?: unknown
  readonly path_on_host?: unknown
  readonly rate_limiter?: RateLimiter | null
} | null

function perSecond(bucket: TokenBucket | null | undefined): number | undefined {
  const { size, refill_time: refillMs } = bucket ?? LIFTED
  return size === 0 || refillMs === 0 ? undefined : (size * 1000) / refillMs
}
