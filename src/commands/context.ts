import type { Rejection } from '../core/errors.ts'
import type { OperationId, VmId } from '../core/vm/ids.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { Result } from '../lib/result.ts'
import type { Store } from '../store/store.ts'

/** What a command may reach: the store and a way to wake the VM's worker. The host is out of its reach. */
export type CommandContext = {
  readonly store: Store
  readonly now: () => number
  readonly newOperationId: () => OperationId
  /** Wakes the VM's worker; carries no payload beyond the reason for the log. */
  readonly poke: (id: VmId, reason: string) => void
}

/** A mutation that was taken. `changed` is false where it asked for what is already desired. */
export type Accepted = { readonly record: VmRecord; readonly changed: boolean }

export type CommandResult = Result<Accepted, Rejection>
