import type { VmId } from '../../src/core/vm/ids.ts'
import type { DiskLimits } from '../../src/core/vm/desired.ts'
import type { Monitor } from '../../src/ports/monitor.ts'

/** A monitor under test, and the part of the init system that it needs. */
export type MonitorStage = {
  readonly monitor: Monitor
  /** Executes the monitor's program for a VM, as its unit would, on a disk of 64 MiB. */
  readonly start: (id: VmId, how: StartOptions) => Promise<void> | void
  /** Grows the disk's file, as the pool does before the guest is told. */
  readonly growFile: (id: VmId, sizeMib: number) => Promise<void> | void
  /** Leaves no room in the pool of a guest that was started with `smallPool`, and has that guest write there. */
  readonly fillPool: (id: VmId) => Promise<void> | void
  readonly makeRoom: (id: VmId) => Promise<void> | void
  /** Where a monitor can write what it saves of a VM. */
  readonly saveFile: (id: VmId) => string
  /** A number that stands in the guest's memory alone, and another after each boot; from a guest that runs. */
  readonly memory: (id: VmId) => Promise<string> | string
  /** Alters what was saved, or cuts it short. */
  readonly damage: (path: string, how: Damage) => Promise<void> | void
  /** Gives a guest that runs a file system on its disk, and an agent that knows how to freeze it. */
  readonly useDisk: (id: VmId) => Promise<void> | void
  /** Writes to that file system, now or as soon as it is let. */
  readonly write: (id: VmId) => Promise<'written' | 'waits'> | 'written' | 'waits'
  /** Ends that process the hard way. */
  readonly end: (id: VmId) => Promise<void> | void
}

export type Damage = 'altered' | 'cut short' | 'emptied'

export type StartOptions = {
  readonly paused: boolean
  /** What it goes on from. */
  readonly restorePath?: string
  readonly diskLimits?: DiskLimits
  /** On a disk in a pool that {@link MonitorStage.fillPool} can fill. */
  readonly smallPool?: boolean
}
