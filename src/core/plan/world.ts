import type { FaultCode, RetryClass } from '../errors.ts'
import type { GuestRule } from '../network/guest-rule.ts'
import type { TapState } from '../network/tap.ts'
import type { UnfitImage } from '../storage/image-look.ts'
import type { SavedState } from '../storage/saved-state.ts'
import type { TrafficState } from '../idle/traffic-state.ts'
import type { DiskLimits, ImageRole } from '../vm/desired.ts'
import type { FoundNote } from '../storage/disk-note.ts'
import type { UserId } from '../vm/ids.ts'
import type { FoundMark } from '../vm/vm-mark.ts'

/**
 * Result of one inspection. `known: false` means neither absent nor present: nothing may be removed or made because of
 * it.
 */
export type Probe<T> = { readonly known: true; readonly value: T } | Unknown

export type Unknown = {
  readonly known: false
  readonly code: FaultCode
  readonly retry: RetryClass
  readonly message: string
}

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
  | { readonly kind: 'unprotected' }

/** A monitor, as its control socket reports it. */
export type MonitorState =
  /** The monitor does not answer; the unit shows whether it should. */
  | { readonly kind: 'silent' }
  /** The monitor reads a saved guest, or waits to learn which one to read. After that it is `paused`. */
  | { readonly kind: 'restoring' }
  | { readonly kind: 'running'; readonly disk: MonitorDisk }
  | { readonly kind: 'paused'; readonly disk: MonitorDisk }
  /** The guest is stopped because its disk failed; it resumes on request. `status` is the monitor's own word. */
  | { readonly kind: 'stalled'; readonly status: string; readonly disk: MonitorDisk }
  /** The guest ended or the monitor gave up; `status` is the monitor's own word. */
  | { readonly kind: 'broken'; readonly status: string }

/** The states of a live guest: changes reach it at once, or when it resumes. */
export type LiveMonitor = Extract<MonitorState, { readonly disk: MonitorDisk }>

export const isLiveMonitor = (monitor: MonitorState): monitor is LiveMonitor => 'disk' in monitor

/** The disk as a monitor shows it to its guest, with the limits in force. */
export type MonitorDisk = DiskLimits & { readonly sizeMib: number }

export type DiskState =
  | { readonly kind: 'absent' }
  /** The disk belongs to another VM with that id. core/vm/judge-owner.ts decides this, never a driver. */
  | { readonly kind: 'foreign'; readonly because: string }
  | {
      readonly kind: 'present'
      readonly sizeMib: number
      /** The note beside the disk; absent if there is none. */
      readonly note?: FoundNote
      /** The one user whose monitor may open the disk; absent if owner, group or a mode was changed. */
      readonly usableBy?: UserId
    }
export type SeedState =
  | { readonly kind: 'absent' }
  /** `usableBy`: as for a disk. */
  | { readonly kind: 'present'; readonly digest: string; readonly usableBy?: UserId }

export type StorageState = {
  readonly disk: DiskState
  readonly seed: SeedState
  /** Roles whose image is not in the pool. */
  readonly missingImages: readonly ImageRole[]
  /** Images in the pool that are of the wrong kind for their role. */
  readonly unfitImages: readonly UnfitImage[]
}

export type FirewallState =
  /** The table is missing. `rule` comes back when the table is written again. */
  | { readonly kind: 'absent'; readonly rule?: GuestRule }
  /** Something else changed the table since this daemon wrote it. */
  | { readonly kind: 'altered' }
  /** This daemon has not written the table yet, so it cannot know whether the table is as it should be. */
  | { readonly kind: 'unverified' }
  | { readonly kind: 'intact'; readonly rule?: GuestRule }

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
