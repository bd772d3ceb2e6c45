import type { GuestDrops, LinkCounters } from '../network/counters.ts'
import type { DiskCounters } from '../storage/disk-counters.ts'

/** Counters of one VM; a member is absent if there is nothing to count: no network, no running guest. */
export type VmCounters = {
  readonly atMs: number
  readonly network?: LinkCounters & GuestDrops
  readonly disk?: DiskCounters
}
