import type { Hindrance } from '../errors.ts'
import { isSaved } from './saved-state.ts'
import type { FirewallState, TapState, TrafficState, WatchedTraffic } from './network-state.ts'
import type { SavedState } from './saved-state.ts'
import type { Disk, ImageRole } from '../desired.ts'
import type { Sha256, UserId, VmId } from '../ids.ts'

/**
 * Result of one inspection. `known: false` means neither absent nor present: nothing may be removed or made because of
 * it.
 */
export type Probe<T> = { readonly known: true; readonly value: T } | Unknown

export type Unknown = Hindrance & { readonly known: false }

/** The unit of a VM as systemd reports it. `absent`: not loaded, or inactive after a clean exit. */
export type UnitState =
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'activating' | 'active'
      readonly mainPid: number
      readonly startedAtMs: number
      readonly mark: FoundMark
    }
  /** The unit carries the mark of another VM with that id. core/vm/judge-owner.ts decides this, never a driver. */
  | { readonly kind: 'foreign'; readonly because: string }
  | { readonly kind: 'deactivating' }
  /** `result`, `status` as in org.freedesktop.systemd1(5): Result and ExecMainStatus. */
  | { readonly kind: 'failed'; readonly result: string; readonly status: number }
  /**
   * The unit is gone or failed, but processes are left in its control group. No other process may open the files they
   * hold open.
   */
  | { readonly kind: 'leftover'; readonly pids: readonly number[] }

type LeftoverUnit = Extract<UnitState, { readonly kind: 'leftover' }>

/** Says that processes outlive their unit, and which. */
export const leftoverWords = ({ pids }: LeftoverUnit): string =>
  `the unit is gone, yet processes are left in its control group: ${pids.join(', ')}`

/**
 * The console of a VM. `stored`: its master is in the descriptor store, as read back from systemd. `detached`: its
 * session continues without a terminal. `ended`: the session has ended, and its output is kept.
 */
export type ConsoleState =
  | { readonly kind: 'absent' | 'detached' | 'ended' }
  | { readonly kind: 'stored'; readonly ptsPath: string }
  /** Open in this daemon, but not in the store: the guest ends with the daemon, unless the master is stored again. */
  | { readonly kind: 'unstored' }
  /** In the store, but not open in this daemon: it cannot be used. */
  | { readonly kind: 'unopened' }

/** A monitor, as its control socket reports it. */
export type MonitorState =
  /** The monitor does not answer; the unit shows whether it should. */
  | { readonly kind: 'silent' }
  /** The monitor reads a saved guest, or waits to learn which one to read. After that it is `paused`. */
  | { readonly kind: 'restoring' }
  | { readonly kind: 'running'; readonly disk: Disk }
  | { readonly kind: 'paused'; readonly disk: Disk }
  /** The guest is stopped because its disk failed; it resumes on request. `status` is the monitor's own word. */
  | { readonly kind: 'stalled'; readonly status: string; readonly disk: Disk }
  /** The guest ended or the monitor gave up; `status` is the monitor's own word. */
  | { readonly kind: 'broken'; readonly status: string }

/** The states of a live guest: changes reach it at once, or when it resumes. */
export type LiveMonitor = Extract<MonitorState, { readonly disk: Disk }>

export const isLiveMonitor = (monitor: MonitorState): monitor is LiveMonitor => 'disk' in monitor

type BrokenMonitor = Extract<MonitorState, { readonly kind: 'broken' }>

/** Says that a guest has ended although its monitor still runs. */
export const brokenWords = ({ status }: BrokenMonitor): string =>
  `the guest has ended: its monitor says ${status}`

/** The note beside a disk, as found; a member that cannot be read is undefined. */
export type FoundNote = {
  readonly mark: FoundMark
  readonly rootfsSha256: Sha256 | undefined
  /** Number of the rebuild that made the disk; absent: the creation did. */
  readonly rebuild?: number
}

export type DiskState =
  /** `hasDirectory`: the VM has a directory in the pool, for example from a disk whose making was cut short. */
  | { readonly kind: 'absent'; readonly hasDirectory?: true }
  /**
   * The disk belongs to another VM with that id. core/vm/judge-owner.ts decides this, never a driver. `ofRebuild`: it
   * has the mark of this very VM, and this rebuild made it; its record is of another.
   */
  | { readonly kind: 'foreign'; readonly because: string; readonly ofRebuild?: number }
  | {
      readonly kind: 'present'
      readonly sizeMib: number
      /** The note beside the disk; absent if there is none. */
      readonly note?: FoundNote
      /** The one user whose monitor may open the disk; absent if owner, group or a mode was changed. */
      readonly usableBy?: UserId
    }
export type PresentDisk = Extract<DiskState, { readonly kind: 'present' }>

export type SeedState =
  | { readonly kind: 'absent' }
  /** `usableBy`: as for a disk. */
  | { readonly kind: 'present'; readonly digest: string; readonly usableBy?: UserId }

/** The file format of a kernel. Not every monitor reads every format. */
export type KernelFormat = 'bzImage' | 'Image' | 'ELF'

/** The kind that the first bytes of an image plainly show. */
export type ImageLook = {
  readonly kind: 'kernel' | 'disk' | 'qcow2' | 'packed' | 'empty'
  /** Absent if it is not a kernel. */
  readonly format?: KernelFormat
  /** E.g. `an ext4 file system`. */
  readonly words: string
}

/** An image in the pool that is plainly of another kind than its role in a VM needs. */
export type UnfitImage = { readonly role: ImageRole; readonly sha256: Sha256; readonly look: ImageLook }

export type StorageState = {
  readonly disk: DiskState
  readonly seed: SeedState
  /** Roles whose image is not in the pool. */
  readonly missingImages: readonly ImageRole[]
  /** Images in the pool that are of the wrong kind for their role. */
  readonly unfitImages: readonly UnfitImage[]
  /** The look of the image for the kernel; absent if it is not in the pool or its kind is not certain. */
  readonly kernelLook?: ImageLook
}

/** Everything of one VM on the host, inspected after the last action. */
export type World = {
  readonly unit: Probe<UnitState>
  readonly console: Probe<ConsoleState>
  readonly monitor: Probe<MonitorState>
  readonly storage: Probe<StorageState>
  readonly tap: Probe<TapState>
  readonly firewall: Probe<FirewallState>
  readonly saved: Probe<SavedState>
  readonly traffic: Probe<TrafficState>
}

/** Returns whether a guest is saved in the pool, even if a unit has it too. */
export const isInPool = ({ saved }: Pick<World, 'saved'>): boolean => saved.known && isSaved(saved.value)

/** Returns whether a guest is saved in the pool and no unit has it. */
export const isAsleep = (world: World): boolean =>
  world.unit.known && isGone(world.unit.value) && isInPool(world)

/** Returns whether a guest is saved in the pool, and the unit, which might also have it, is known not to run. */
export const isSavedOutsideUnit = (world: World): boolean =>
  world.unit.known && world.unit.value.kind !== 'active' && isInPool(world)

/** Returns the traffic of the VM if a program counts it; undefined if none does, or the look failed. */
export const watchedOf = ({ traffic }: Pick<World, 'traffic'>): WatchedTraffic | undefined =>
  traffic.known && traffic.value.kind === 'watched' ? traffic.value : undefined

/** Returns whether the unit of the VM is active, whatever its monitor says. */
export const isUnitActive = ({ unit }: Pick<World, 'unit'>): boolean =>
  unit.known && unit.value.kind === 'active'

/** Returns whether no process of the VM has its guest. */
export const isGone = ({ kind }: UnitState): boolean =>
  kind === 'absent' || kind === 'failed' || kind === 'leftover'

/**
 * Identifies one VM among all that had its id. A controller may use an id again, and a host may get another state
 * directory. Units and disks carry the mark.
 */
export type VmMark = { readonly storeId: string; readonly createdAtMs: number }

/** A mark as read from an object. An object of an older daemon has only a part of it, or none. */
export type FoundMark = { readonly [K in keyof VmMark]: VmMark[K] | undefined }

type MarkedVm = { readonly id: VmId; readonly createdAtMs: number }

/**
 * Returns why an object with this mark does not belong to that VM; undefined if it does. An object without a time
 * belongs to the VM of its store.
 */
export function whyForeign(
  found: FoundMark,
  { id, createdAtMs }: MarkedVm,
  storeId: string,
): string | undefined {
  if (found.storeId !== storeId) {
    const owner = found.storeId === undefined ? 'no state directory' : `the state directory ${found.storeId}`
    return `it belongs to ${owner}, and VM ${id} to ${storeId}`
  }
  if (found.createdAtMs === undefined || found.createdAtMs === createdAtMs) return undefined
  return `it belongs to a VM ${id} of ${time(found.createdAtMs)}, and this one was created at ${time(createdAtMs)}`
}

const time = (ms: number): string => new Date(ms).toISOString()
