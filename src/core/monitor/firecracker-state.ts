import { MIB } from '../../lib/byte-units.ts'
import { isCount } from '../../lib/parsed-values.ts'
import type { Disk, DiskLimits } from '../desired.ts'
import type { MonitorState } from '../world/world.ts'

/**
 * Returns the meaning of `state` in an answer to `GET /` (Firecracker, src/firecracker/swagger/firecracker.yaml,
 * InstanceInfo). A process without a guest waits for the one that it is to restore,
 * because all others start with theirs.
 */
export function firecrackerStateOf(state: string, disk: Disk): MonitorState {
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
export type RateLimiter = { readonly bandwidth: TokenBucket; readonly ops: TokenBucket }

/** Converts limits to Firecracker's terms. A limit that is not named is lifted. Reads and writes count together. */
export const rateLimiterOf = ({ iopsMax, mibPerSecondMax }: DiskLimits): RateLimiter => ({
  bandwidth: mibPerSecondMax === undefined ? LIFTED : bucketOf(mibPerSecondMax * MIB),
  ops: iopsMax === undefined ? LIFTED : bucketOf(iopsMax),
})

const bucketOf = (size: number): TokenBucket => ({ size, refill_time: REFILL_MS })

/**
 * Finds the limits in force of a drive in an answer to `GET /vm/config`; undefined if the drive is not there, or not as
 * Firecracker shows it.
 */
export function driveLimitsIn(answer: unknown, driveId: string): DiskLimits | undefined {
  const { drives } = (answer ?? {}) as { drives?: unknown }
  const listed = Array.isArray(drives) ? (drives as readonly Drive[]) : []
  const drive = listed.find((one) => one?.drive_id === driveId)
  const iops = perSecond(drive?.rate_limiter?.ops)
  const bytes = perSecond(drive?.rate_limiter?.bandwidth)
  if (!drive || iops === undefined || bytes === undefined) return undefined
  return {
    ...(iops === 0 ? {} : { iopsMax: iops }),
    ...(bytes === 0 ? {} : { mibPerSecondMax: bytes / MIB }),
  }
}

/** The parts of an answer that are read. A monitor that its guest took over may answer anything. */
type Drive = {
  readonly drive_id?: unknown
  readonly rate_limiter?: { readonly bandwidth?: FoundBucket; readonly ops?: FoundBucket } | null
} | null
type FoundBucket = { readonly [K in keyof TokenBucket]?: unknown } | null | undefined

/** Returns 0 for no limit; undefined if the bucket is not one. */
function perSecond(bucket: FoundBucket): number | undefined {
  const { size, refill_time: refillMs } = bucket ?? LIFTED
  if (!isCount(size) || !isCount(refillMs)) return undefined
  return size === 0 || refillMs === 0 ? 0 : (size * 1000) / refillMs
}
