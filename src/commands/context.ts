import type { Rejection } from '../core/errors.ts'
import type { Unknown } from '../core/plan/world.ts'
import type { OutboundPolicy } from '../core/object-store/outbound-policy.ts'
import type { SnapshotId, SnapshotRequest } from '../core/snapshot/record.ts'
import type { OperationId, VmId } from '../core/vm/ids.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Result } from '../lib/result.ts'
import type { Capacity } from '../ports/capacity.ts'
import type { Store } from '../store/store.ts'

/** What a command may reach: the store, what was last seen of the host, and a way to wake the VM's worker. */
export type CommandContext = {
  readonly store: Store
  readonly capacity: Capacity
  /** Networks that guests' addresses must come from, in canonical form; any where empty. */
  readonly guestRanges: readonly string[]
  /** Where snapshots may be sent to, and images fetched from. */
  readonly outbound: OutboundPolicy
  /** Absolute; below it files may become images. None may if it is absent. */
  readonly localImagesDirectory?: string
  readonly stagingQuotaMib: () => number
  readonly now: () => number
  readonly newOperationId: () => OperationId
  /** Wakes the VM's worker; carries no payload beyond the reason for the log. */
  readonly poke: (id: VmId, reason: string) => void
  /** The same for a snapshot's owner; besides the id, all of it is for the log. */
  readonly pokeSnapshot: (id: SnapshotId, request: SnapshotRequest) => void
}

/** A mutation that was taken. `changed` is false where it asked for what is already desired. */
export type Accepted = {
  readonly record: VmRecord
  readonly changed: boolean
  /** Of a change that the host has no part in; else the record has it. */
  readonly operationId?: OperationId
}

/** Why a mutation was not taken: it is wrong, or what it depends on could not be inspected. Nothing was stored. */
export type Refusal = Rejection | Unknown

export type CommandResult = Result<Accepted, Refusal>
