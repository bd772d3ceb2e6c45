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

/** What one inspection found. `known: false` is neither absent nor present: nothing is removed or made on it. */
export type Probe<T> = { readonly known: true; readonly value: T } | Unknown

export type Unknown = {
  readonly known: false
  readonly code: FaultCode
  readonly retry: RetryClass
  readonly message: string
}

/** The unit of a VM as systemd tells it. `absent`: not loaded, or inactive after a clean exit. */
export type UnitState =
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'activating' | 'active'
      readonly mainPid: number
      readonly startedAtMs: number
      readonly mark: FoundMark
    }
  /** It carries the mark of another VM of that id: core/vm/judge-owner.ts says so, no driver. */
  | { readonly kind: 'foreign'; readonly because: string }
  | { readonly kind: 'deactivating' }
  /** `result`, `status` as in org.freedesktop.systemd1(5): Result and ExecMainStatus. */
  | { readonly kind: 'failed'; readonly result: string; readonly status: number }
  /** The unit is gone or failed, yet processes are left in its control group: what they hold open, nobody else may open. */
  | { readonly kind: 'leftover'; readonly pids: readonly number[] }

/**
 * The console of a VM. `stored`: its master is in the descriptor store, as read back from systemd. `detached`: its session
 * goes on without a terminal. `ended`: the session is over, and its output is kept.
 */
export type ConsoleState =
  | { readonly kind: 'absent' | 'detached' | 'ended' }
  | { readonly kind: 'stored'; readonly ptsPath: string }
  /** Open here, and not in the store: the guest ends with the daemon, unless it is stored again. */
  | { readonly kind: 'unstored' }
  /** In the store, and not open here: it cannot be used. */
  | { readonly kind: 'unprotected' }

/** A monitor as it answers on its control socket. */
export type MonitorState =
  /** Nothing answers; the unit tells whether something should. */
  | { readonly kind: 'silent' }
  /** It reads a saved guest, or waits for being told which; then it is `paused`. */
  | { readonly kind: 'restoring' }
  | { readonly kind: 'running'; readonly disk: MonitorDisk }
  | { readonly kind: 'paused'; readonly disk: MonitorDisk }
  /** The guest stands still since its disk failed; it goes on where it is told to. `status` is the monitor's own word. */
  | { readonly kind: 'stalled'; readonly status: string; readonly disk: MonitorDisk }
  /** The guest ended or the monitor gave up; `status` is its own word for it. */
  | { readonly kind: 'broken'; readonly status: string }

/** The states of a guest that lives: what it is given reaches it, at once or when it goes on. */
export type LiveMonitor = Extract<MonitorState, { readonly disk: MonitorDisk }>

export const isLiveMonitor = (monitor: MonitorState): monitor is LiveMonitor => 'disk' in monitor

/** The disk as a monitor shows it to its guest, with the limits in force. */
export type MonitorDisk = DiskLimits & { readonly sizeMib: number }

export type DiskState =
  | { readonly kind: 'absent' }
  /** It is another VM's of that id: core/vm/judge-owner.ts says so, no driver. */
  | { readonly kind: 'foreign'; readonly because: string }
  | {
      readonly kind: 'present'
      readonly sizeMib: number
      /** Absent if none stands beside the disk. */
      readonly note?: FoundNote
      /** The one user whose monitor may open it; absent if owner, group or a mode is not as it was made. */
      readonly usableBy?: UserId
    }
export type SeedState =
  | { readonly kind: 'absent' }
  /** `usableBy` as of a disk. */
  | { readonly kind: 'present'; readonly digest: string; readonly usableBy?: UserId }

export type StorageState = {
  readonly disk: DiskState
  readonly seed: SeedState
  /** Roles whose image is not in the pool. */
  readonly missingImages: readonly ImageRole[]
  /** Images in the pool that cannot play their part. */
  readonly unfitImages: readonly UnfitImage[]
}

export type FirewallState =
  /** The rule comes back with the table, when it is written again. */
  | { readonly kind: 'absent'; readonly rule?: GuestRule }
  /** Somebody changed the table since we wrote it. */
  | { readonly kind: 'altered' }
  /** Nothing tells whether the table is as this daemon would write it: it has not written it yet. */
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
