import type { Commitment } from '../core/capacity/capacity.ts'
import type { Probe } from '../core/plan/world.ts'
import type { Sha256 } from '../core/vm/ids.ts'

/**
 * What the host was last found to have, for commands: read from memory, without a wait. Unknown where the last look
 * failed or is too old; then nothing is promised.
 */
export interface Capacity {
  /** What all VMs together may commit, each part for itself: memory is known also where the pool is not. */
  allocatable(): { readonly [K in keyof Commitment]: Probe<number> }
  /** Whether the host itself has this address (canonical text), or relies on it, as on its routers and resolvers. */
  isOwnAddress(address: string): Probe<boolean>
  /** The length of an image, in MiB rounded up; undefined if the last look at the pool did not find it. */
  imageMib(sha256: Sha256): number | undefined
}
