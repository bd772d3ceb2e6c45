import type { GuestDrops, LinkCounters } from '../network/counters.ts'
import type { DiskCounters } from '../storage/disk-counters.ts'

/** What was counted of one VM; a part is absent where there is nothing to count: no network, no running guest. */
export type VmCounters = {
  readonly atMs: number
  readonly network?: LinkCounters & GuestDrops
  readonly disk?: DiskCounters
}
