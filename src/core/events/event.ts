import type { FaultCode, ProblemCode } from '../errors.ts'
import type { Generation, OperationId, VmId } from '../ids.ts'
import type { DesiredPower } from '../desired.ts'
import type { ShownMaintenance } from '../maintenance/maintenance.ts'
import type { MigrationId, NodeName } from '../migration/offer.ts'
import type { SnapshotId, SnapshotStatus } from '../snapshots/record.ts'
import type { ExitCause } from '../vm/last-exit.ts'
import type { ObservedState, StopKind, WakeReason } from '../vm/record.ts'
import type { PacketFlow } from '../world/network-state.ts'

/** A member of every event of a VM or of its snapshots. */
type OfVm = { readonly vmId: VmId; readonly operationId: OperationId }
type OfSnapshot = OfVm & { readonly snapshotId: SnapshotId }

/** A fault, without its attempts. `detail` is the message of its beginning. */
export type FaultFacts = { readonly code: FaultCode; readonly step: string; readonly detail: string }

/** How the guest was asked for, and by which packet if it was one. */
export type WakeFacts = { readonly reason: WakeReason; readonly packet?: PacketFlow }

export type VmEvent = OfVm &
  (
    | { readonly kind: 'vm_created'; readonly to: ObservedState }
    /** A change of desired state was accepted. `changes` are the members of desired state that differ. */
    | {
        readonly kind: 'vm_requested'
        readonly generation: Generation
        readonly power: DesiredPower
        readonly changes: readonly string[]
        readonly deletes?: true
        /** The VM is deleted by its exit policy, without a request. */
        readonly due?: true
        /** The guest is to end, while desired power stays: it is rebooted, or its host is drained. */
        readonly stops?: true
      }
    /** Desired state is reached. */
    | { readonly kind: 'vm_reached'; readonly generation: Generation }
    | { readonly kind: 'vm_state'; readonly from: ObservedState; readonly to: ObservedState }
    /** The guest ended by itself. */
    | {
        readonly kind: 'vm_exit'
        readonly cause: ExitCause
        readonly detail: string
        readonly ranMs: number
        readonly exitStatus?: number
      }
    /** The guest was stopped: by a request, or without a generation because the host shut down. */
    | { readonly kind: 'vm_stop'; readonly how: StopKind; readonly generation?: number }
    | ({ readonly kind: 'vm_waking' } & WakeFacts)
    | ({
        readonly kind: 'vm_woken'
        readonly durationMs: number
        readonly heldPackets: number
        readonly droppedPackets: number
      } & WakeFacts)
    | ({ readonly kind: 'vm_fault' } & FaultFacts)
    | ({ readonly kind: 'vm_fault_ended' } & Omit<FaultFacts, 'detail'>)
    /**
     * A stage of a migration. `from` is absent in its first stage; `because` is the reason of an end without a move.
     */
    | {
        readonly kind: 'vm_migration'
        readonly side: 'source' | 'destination'
        readonly migrationId: MigrationId
        readonly from?: string
        readonly to: string
        readonly because?: string
        /** The destination, if this host is the source. */
        readonly node?: NodeName
      }
    /** The record is gone. */
    | { readonly kind: 'vm_deleted'; readonly from: ObservedState }
  )

export type SnapshotEvent = OfSnapshot &
  (
    | { readonly kind: 'snapshot_created'; readonly to: SnapshotStatus }
    | {
        readonly kind: 'snapshot_state'
        readonly from: SnapshotStatus
        readonly to: SnapshotStatus
        /** Why it failed. */
        readonly code?: FaultCode
        readonly detail?: string
      }
    | { readonly kind: 'snapshot_deleted'; readonly from: SnapshotStatus }
  )

/** A request was refused because the host has no room for it. */
export type RefusalEvent = {
  readonly kind: 'admission_refused'
  readonly vmId: VmId
  readonly code: ProblemCode
  readonly detail: string
}

/** The state of the host changed. `detail` is the reason in the words of the operator. */
export type HostStateEvent = {
  readonly kind: 'host_maintenance'
  readonly from: ShownMaintenance
  readonly to: ShownMaintenance
  readonly detail?: string
  readonly operationId?: OperationId
}

/** A certificate that the host depends on, or the revocation list of an authority. */
export type CertificateEvent =
  | {
      readonly kind: 'certificate_ends_soon' | 'certificate_ended' | 'certificate_replaced'
      /** As in `host.certificates`, or `client`. */
      readonly certificate: string
      /** End of the new one, if it was replaced. */
      readonly notAfterMs: number
      /** Common name and serial number of a client's. */
      readonly name?: string
      readonly serial?: string
    }
  | {
      readonly kind: 'revocation_list_replaced' | 'revocation_list_overdue'
      readonly listener: string
      readonly issuer: string
      readonly revoked: number
      readonly nextUpdateMs?: number
    }

/** An event without its time and its number. One that is about no VM has no `vmId`. */
export type EventBody = VmEvent | SnapshotEvent | RefusalEvent | HostStateEvent | CertificateEvent

/** Returns the VM that an event is about. */
export const vmOfEvent = (body: EventBody): VmId | undefined => ('vmId' in body ? body.vmId : undefined)

/**
 * All kinds. The list is open: later versions have more, and a reader passes over kinds that it does not know.
 */
export const EVENT_KINDS = [
  'vm_created',
  'vm_requested',
  'vm_reached',
  'vm_state',
  'vm_exit',
  'vm_stop',
  'vm_waking',
  'vm_woken',
  'vm_fault',
  'vm_fault_ended',
  'vm_migration',
  'vm_deleted',
  'snapshot_created',
  'snapshot_state',
  'snapshot_deleted',
  'admission_refused',
  'host_maintenance',
  'certificate_ends_soon',
  'certificate_ended',
  'certificate_replaced',
  'revocation_list_replaced',
  'revocation_list_overdue',
] as const satisfies readonly EventBody['kind'][]

/** An event on record. Numbers rise and have gaps; they come from the counter of revisions. */
export type StoredEvent = { readonly sequence: number; readonly atMs: number; readonly body: EventBody }
