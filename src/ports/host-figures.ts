import type { Sha256 } from '../core/vm/ids.ts'

/** Of the host, as /proc/meminfo tells it (proc_meminfo(5)): MemTotal and MemAvailable. */
export type MemoryFigures = { readonly totalMib: number; readonly availableMib: number }

/** Of the pool's own file system, as statfs(2) tells it; `availableMib` without what is kept for root. */
export type PoolFigures = {
  readonly poolId: string
  readonly totalMib: number
  readonly availableMib: number
}

/** An image in the pool; its length rounded up. */
export type PoolImage = { readonly sha256: Sha256; readonly sizeMib: number }

/** What this host is. */
export type Machine = {
  /** Release, as `uname -r` prints it. */
  readonly kernel: string
  /** As `uname -m` prints it, e.g. `x86_64`. */
  readonly architecture: string
  readonly monitor: MonitorProgram
}

/** The program that VMs started from now on run in. `version` is absent where it cannot be asked, as where it is not installed. */
export type MonitorProgram = {
  /** Its name without a path, e.g. `qemu-system-x86_64`. */
  readonly program: string
  readonly version?: string
  readonly accelerator: string
}

/**
 * What the host has, looked at anew by every call: nothing is remembered, guessed, or zero for unknown. Every method
 * throws HostFault instead, within `limits.hostLookMs`, also where the host does not answer at all; a call that was
 * given up is not repeated beside itself.
 */
export interface HostFigures {
  /** Throws `capacity_unknown`. */
  memory(): Promise<MemoryFigures>
  /** CPUs online. Throws `capacity_unknown`. */
  cpus(): Promise<number>
  /** Throws `storage_inspection_failed` where the pool is out of sight; never the figures of the file system below it. */
  pool(): Promise<PoolFigures>
  /** In the order of their digests. Throws `storage_inspection_failed`. */
  images(): Promise<readonly PoolImage[]>
  /**
   * Canonical texts of all addresses in the host's network namespace, on links that are down too; and of those that the host
   * relies on: broadcast addresses of its networks, its routers and its resolvers. Throws `network_failed`.
   */
  addresses(): Promise<ReadonlySet<string>>
  machine(): Promise<Machine>
}
