import type { PoolShares } from '../core/capacity/ledger.ts'
import type { Commitment } from '../core/capacity/capacity.ts'
import type { Probe } from '../core/plan/world.ts'
import type { Sha256 } from '../core/vm/ids.ts'

/**
 * What the host was last found to have, for commands: read from memory, without a wait. Unknown where the last look
 * failed or is too old; then nothing is promised.
 */
export interface Capacity {
  /** What all VMs together may commit, each part for itself: memory is known also when the pool is not. */
  allocatable(): { readonly [K in keyof Commitment]: Probe<number> }
  /** Room in the pool that is taken by others than VMs. */
  poolShares(): Probe<PoolShares>
  /** What a monitor of a guest of so much memory may take besides, in MiB. */
  monitorMib(guestMib: number): number
  /** How many vCPUs a guest may have at most. */
  vcpusMax(): number
  /** Whether the host itself has this address (canonical text), or relies on it, as on its routers and resolvers. */
  isOwnAddress(address: string): Probe<boolean>
  /** The length of an image, in MiB rounded up; undefined if the last look at the pool did not find it. */
  imageMib(sha256: Sha256): number | undefined
}
