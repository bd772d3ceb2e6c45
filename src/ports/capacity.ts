import type { PoolShares, Commitment, MemoryTerms } from '../core/capacity/ledger.ts'
import type { MonitorOffers } from '../core/monitor/choose-monitor.ts'
import type { Probe } from '../core/world/world.ts'
import type { Sha256 } from '../core/ids.ts'

/**
 * What the last look at the host found, for commands; read from memory, without a wait. A figure is unknown if the last
 * look failed or is too old; then nothing is promised.
 */
export interface Capacity {
  /** The most that all VMs may commit. Each part stands for itself: memory is known even if the pool is not. */
  allocatable(): { readonly [K in keyof Commitment]: Probe<number> }
  /** Space in the pool that others than VMs take. */
  poolShares(): Probe<PoolShares>
  /** The terms on which VMs are promised memory. */
  memoryTerms(): MemoryTerms
  /** Which monitors this host offers, and which one new VMs get. */
  monitors(): MonitorOffers
  /**
   * The addresses, in canonical text, that the host itself has or relies on,
   * such as the address of a router or resolver.
   */
  hostAddresses(): Probe<ReadonlySet<string>>
  /** The length of an image, in MiB rounded up; undefined if the last look at the pool did not find it. */
  imageMib(sha256: Sha256): number | undefined
}
