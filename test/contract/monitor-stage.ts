import type { VmId } from '../../src/core/ids.ts'
import type { DiskLimits } from '../../src/core/desired.ts'
import type { Monitor, RestoredGuest } from '../../src/ports/monitor.ts'

/** A monitor under test, and the part of the init system that it needs. */
export type MonitorStage = {
  readonly monitor: Monitor
  /** Whether the monitor counts what its guest reads and writes. */
  readonly countsDisk: boolean
  /** Whether the monitor begins to read a saved guest at its start, and not when it is asked to. */
  readonly restoresAlone: boolean
  /**
   * Whether a guest whose disk finds no room in the pool is paused, and its write is repeated.
   * Otherwise the write fails.
   */
  readonly pausesWhenFull: boolean
  /** Executes the monitor's program for a VM, as its unit would, on a disk of 64 MiB. */
  readonly start: (id: VmId, how: StartOptions) => Promise<void> | void
  /** Grows the disk's file, as the pool does before the guest is notified. */
  readonly growFile: (id: VmId, sizeMib: number) => Promise<void> | void
  /** Fills the pool of a guest that was started with `smallPool`, and has that guest write there. */
  readonly fillPool: (id: VmId) => Promise<void> | void
  readonly makeRoom: (id: VmId) => Promise<void> | void
  /** Path where a monitor can write the saved state of a VM. */
  readonly saveFile: (id: VmId) => string
  /** The guest that `start` restores from that file. */
  readonly guest: (id: VmId) => RestoredGuest
  /** Reads a number that exists only in the guest's memory and differs after each boot. The guest must be running. */
  readonly memory: (id: VmId) => Promise<string> | string
  /** Alters the saved state, or cuts it short. */
  readonly damage: (path: string, how: Damage) => Promise<void> | void
  /** Gives a running guest a file system on its disk, and an agent that can freeze it. */
  readonly useDisk: (id: VmId) => Promise<void> | void
  /** Writes to that file system, now or as soon as it is thawed. */
  readonly write: (id: VmId) => Promise<'written' | 'waits'> | 'written' | 'waits'
  /** Kills that process. */
  readonly end: (id: VmId) => Promise<void> | void
}

export type Damage = 'altered' | 'cut short' | 'emptied'

export type StartOptions = {
  readonly paused: boolean
  /** Saved state that the guest continues from. */
  readonly restorePath?: string
  readonly diskLimits?: DiskLimits
  /** Puts the disk into a pool that {@link MonitorStage.fillPool} can fill. */
  readonly smallPool?: boolean
}
