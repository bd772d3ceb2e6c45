import type { WaitReason } from '../plan/step.ts'
import type { FaultCode } from '../errors.ts'
import type { Compute, Desired } from './desired.ts'
import type { LastWake, PendingWake } from './wake.ts'
import type { DeviceName, Generation, OperationId, UserId, VmId } from './ids.ts'

export type ObservedState =
  | 'pending'
  | 'starting'
  | 'running'
  | 'pausing'
  | 'paused'
  | 'stopping'
  | 'stopped'
  | 'sleeping'
  | 'waking'
  | 'deleting'
  | 'failed'

/** Why observed state stands still. Times are milliseconds since the epoch. */
export type Fault = {
  readonly code: FaultCode
  /** The step that failed, or the inspection, e.g. `network.ensure-tap`. */
  readonly step: string
  /** The whole cause chain in one line. */
  readonly message: string
  readonly generation: Generation
  readonly sinceMs: number
  readonly attempt: number
  readonly nextAttemptAtMs: number
}

/** One thing that an inspection found to be wrong; see `partial-faults.ts`. */
export type PartialFault = Pick<Fault, 'code' | 'step' | 'message'>

/** What the last pass found, as it is shown. */
export type Observed = {
  readonly state: ObservedState
  /** When the state began. */
  readonly sinceMs: number
  /** What a transitional state waits for. */
  readonly waitingFor?: WaitReason
  readonly fault?: Fault
  /** Absent where the last look found nothing wrong. */
  readonly partialFaults?: readonly PartialFault[]
  /** The shape the VM runs with now; absent while it does not run. */
  readonly compute?: Compute
  /** Absent until the disk exists; the guest's view of it while there is a guest. */
  readonly disk?: {
    readonly sizeMib: number
    readonly guestSizeMib?: number
    /** The last look did not find the disk: the size is of an earlier one, and is not shown. */
    readonly unseen?: true
  }
  readonly startedAtMs?: number
  /** Of the last packet that counted as traffic; renewed in steps of `limits.lastTrafficStepMs` while the VM runs. */
  readonly lastTrafficAtMs?: number
  /** What is in the pool to wake from. */
  readonly savedState?: { readonly savedAtMs: number; readonly sizeMib: number; readonly memoryMib: number }
  readonly lastWake?: LastWake
  /** Sleeps in a row that traffic ended soon after they began. */
  readonly shortSleeps?: number
}

/** A start that was seen to succeed. Its absence while the unit is gone means: nothing was lost, start it. */
export type Launch = {
  /** Of the host's boot: a VM does not exit by itself when its host reboots. */
  readonly bootId: string
  readonly atMs: number
  readonly compute: Compute
}

/** Host names that belong to the VM, allocated with the record and recorded before the objects exist. */
export type HostIdentity = { readonly userId: UserId; readonly device: DeviceName }

/** Labels by which a controller finds its VMs, and a guard against deletion. No part of what the host is moved to. */
export type Metadata = {
  readonly labels: Readonly<Record<string, string>>
  readonly protected: boolean
}

/**
 * Generations of stops; 0 where there is none. A creation as `stopped` is one too. A stop that is accepted and not yet
 * carried out outlives any later power.
 */
export type Stops = {
  /** Of the newest stop that was accepted. */
  readonly accepted: number
  /** Up to which a look found that nothing was left of the guest: no unit, no console, nothing saved. */
  readonly carriedOut: number
}

export type VmRecord = {
  readonly id: VmId
  readonly host: HostIdentity
  readonly desired: Desired
  /** For the controller's own use; the host does not care. */
  readonly metadata: Metadata
  /** True once deletion was asked for; the record goes when the host is clean. */
  readonly deleting: boolean
  readonly generations: { readonly desired: Generation; readonly observed: Generation }
  /** The generation that set the present power; 1 is the creation. */
  readonly powerGeneration: Generation
  readonly stops: Stops
  /** The mutation that made the present desired generation. */
  readonly operationId: OperationId
  readonly observed: Observed
  readonly launch?: Launch
  readonly wake?: PendingWake
  /** From before the guest is saved until a look finds nothing saved: for as long as the pool may be out of sight. */
  readonly mayBeSaved?: true
  /** Exits in a row, each soon after its start; feeds the restart back-off. */
  readonly exitStreak: number
  /** Raised by every visible change; the ETag. */
  readonly revision: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
}
