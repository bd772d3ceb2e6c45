import type { MonitorOffer, MonitorOffers } from '../core/monitor/choose-monitor.ts'
import type { MonitorKind } from '../core/monitor/monitor-kind.ts'

/** Memory of the host, from /proc/meminfo (proc_meminfo(5)): MemTotal and MemAvailable. */
export type MemoryFigures = { readonly totalMib: number; readonly availableMib: number }

/** Figures of the pool's own file system, from statfs(2); `availableMib` excludes what is reserved for root. */
export type PoolFigures = {
  readonly poolId: string
  readonly totalMib: number
  readonly availableMib: number
}

/** Describes this host. */
export type Machine = {
  /** Release, as `uname -r` prints it. */
  readonly kernel: string
  /** The architecture as `uname -m` prints it, e.g. `x86_64`. */
  readonly architecture: string
  readonly monitors: readonly MonitorProgram[]
}

/** One kind of monitor. `version` is absent if it cannot be read, for example because the program is not installed. */
export type MonitorProgram = MonitorOffer & {
  readonly kind: MonitorKind
  /** Whether VMs that are created without a kind get this one. */
  readonly isDefault: boolean
  /** Its name without a path, e.g. `qemu-system-x86_64`. */
  readonly program: string
  readonly version?: string
}

/**
 * The host's figures. Every call reads them again; nothing is remembered, guessed, or zero for unknown. Every method
 * throws HostFault instead, within `limits.hostLookMs`, even if the host does not answer at all. A call that was given
 * up is not repeated while it still runs.
 */
export interface HostFigures {
  /** Throws `capacity_unknown`. */
  memory(): Promise<MemoryFigures>
  /** CPUs online. Throws `capacity_unknown`. */
  cpus(): Promise<number>
  /**
   * Throws `storage_inspection_failed` if the pool cannot be read; never returns the figures of the file system below
   * it.
   */
  pool(): Promise<PoolFigures>
  /**
   * Canonical texts of all addresses in the host's network namespace, including links that are down. Also includes the
   * addresses that the host relies on: broadcast addresses of its networks, its routers and its resolvers. Throws
   * `network_failed`.
   */
  addresses(): Promise<ReadonlySet<string>>
  machine(): Promise<Machine>
  /** Which monitors this host offers; without a wait. */
  monitors(): MonitorOffers
}
