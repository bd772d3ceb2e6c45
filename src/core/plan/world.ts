import type { FaultCode, RetryClass } from '../errors.ts'
import type { GuestRule } from '../network/guest-rule.ts'
import type { TapState } from '../network/tap.ts'
import type { ImageRole } from '../vm/desired.ts'

/** What one inspection found. `known: false` is neither absent nor present: nothing is removed or made on it. */
export type Probe<T> =
  | { readonly known: true; readonly value: T }
  | { readonly known: false; readonly code: FaultCode; readonly retry: RetryClass; readonly message: string }

/** The unit of a VM as systemd tells it. `absent`: not loaded, or inactive after a clean exit. */
export type UnitState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'activating' | 'active'; readonly mainPid: number; readonly startedAtMs: number }
  | { readonly kind: 'deactivating' }
  /** `result`, `status` as in org.freedesktop.systemd1(5): Result and ExecMainStatus. */
  | { readonly kind: 'failed'; readonly result: string; readonly status: number }

/** The pty of a VM. `stored`: its master is in the descriptor store, as read back from systemd. */
export type ConsoleState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'stored'; readonly ptsPath: string }
  | { readonly kind: 'unprotected' }

/** A monitor as it answers on its control socket. */
export type MonitorState =
  /** Nothing answers; the unit tells whether something should. */
  | { readonly kind: 'silent' }
  | { readonly kind: 'running' }
  | { readonly kind: 'paused' }
  /** The guest ended or the monitor gave up; `status` is its own word for it. */
  | { readonly kind: 'broken'; readonly status: string }

export type DiskState = { readonly kind: 'absent' } | { readonly kind: 'present'; readonly sizeMib: number }
export type SeedState = { readonly kind: 'absent' } | { readonly kind: 'present'; readonly digest: string }

export type StorageState = {
  readonly disk: DiskState
  readonly seed: SeedState
  /** Roles whose image is not in the pool. */
  readonly missingImages: readonly ImageRole[]
}

export type FirewallState =
  | { readonly kind: 'absent' }
  /** Somebody changed the table since we wrote it. */
  | { readonly kind: 'altered' }
  | { readonly kind: 'intact'; readonly rule?: GuestRule }

/** Everything of one VM on the host, inspected after the last action. */
export type World = {
  readonly unit: Probe<UnitState>
  readonly console: Probe<ConsoleState>
  readonly monitor: Probe<MonitorState>
  readonly storage: Probe<StorageState>
  readonly tap: Probe<TapState>
  readonly firewall: Probe<FirewallState>
}
