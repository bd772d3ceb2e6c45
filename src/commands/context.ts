import type { Rejection } from '../core/errors.ts'
import type { Unknown } from '../core/world/world.ts'
import type { OutboundPolicy } from '../core/outbound/outbound-policy.ts'
import type { SnapshotId, SnapshotRequest } from '../core/snapshots/record.ts'
import type { OperationId, VmId } from '../core/ids.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Result } from '../lib/result.ts'
import type { Capacity } from '../ports/capacity.ts'
import type { Store } from '../store/store.ts'

/** Everything that a command may use: the store, the last look at the host, and a way to wake the VM's worker. */
export type CommandContext = {
  readonly store: Store
  /** The present boot of the host. */
  readonly bootId: string
  readonly capacity: Capacity
  /** Networks that guests' addresses must come from, in canonical form; any network if empty. */
  readonly guestRanges: readonly string[]
  /** Name servers of VMs that ask for none, in canonical form. */
  readonly nameServers: readonly string[]
  /** Decides where snapshots may be sent to, and images fetched from. */
  readonly outbound: OutboundPolicy
  /** Absolute path; files below it may become images. If it is absent, no file may. */
  readonly localImagesDirectory?: string
  readonly stagingQuotaMib: () => number
  readonly now: () => number
  /** Returns the record with the end of its grace by the present clock, which may have been set since. */
  readonly timed: (record: VmRecord) => VmRecord
  readonly newOperationId: () => OperationId
  /** Wakes the VM's worker; carries no payload beyond the reason for the log. */
  readonly poke: (id: VmId, reason: string) => void
  /** Makes the VM's worker look; unlike a poke, that ends no back-off. For changes that are not desired state. */
  readonly notice: (id: VmId, reason: string) => void
  /** Wakes everything that depends on the state of the host. */
  readonly pokeHost: (reason: string) => void
  /** Wakes a snapshot's owner; everything but the id is for the log. */
  readonly pokeSnapshot: (id: SnapshotId, request: SnapshotRequest) => void
}

/** An accepted mutation. `changed` is false if it asked for what is already desired. */
export type Accepted = {
  readonly record: VmRecord
  readonly changed: boolean
  /** Set for a change that does not concern the host; otherwise the record has it. */
  readonly operationId?: OperationId
}

/** Why a mutation was refused: it is wrong, or what it depends on could not be inspected. Nothing was stored. */
export type Refusal = Rejection | Unknown

export type CommandResult = Result<Accepted, Refusal>
