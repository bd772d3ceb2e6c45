import { err } from '../../lib/result.ts'
import { owesStop } from '../../core/vm/record.ts'
import { existingVm } from './existing-vm.ts'
import type { Rejection } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { ObservedState, VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { Store } from '../../store/store.ts'

/** Returns the record that a change is about, or why it cannot be changed. */
export function changeableVm(store: Store, id: VmId): Result<VmRecord, Rejection> {
  const found = existingVm(store, id)
  if (!found.ok || !found.value.deleting) return found
  return err({ code: 'vm_deleting', detail: `${id} is being deleted and takes no further changes` })
}

/**
 * Returns whether the VM is stopped: a stop is desired, and a look found nothing left of the guest, neither a unit nor
 * a saved state. The state that is shown does not count: a VM that was created as `stopped` and cannot be prepared is
 * `failed`.
 */
export const isStopped = (record: VmRecord): boolean =>
  record.desired.power === 'stopped' && !owesStop(record)

/** Returns the refusal of a change to what a guest was started with. */
export const notStopped = ({ id, desired, observed }: VmRecord, what: string): Rejection => ({
  code: 'vm_not_stopped',
  detail:
    `${what} of ${id} can change only while it is stopped, and it is ${observed.state}: ` +
    (desired.power === 'stopped'
      ? 'wait until it is; observed.error says what keeps it'
      : `set its power to stopped${AT_A_COST[observed.state] ?? ''}, and wait until it is`),
})

const AT_A_COST: { readonly [S in ObservedState]?: string } = {
  sleeping: ', which throws its saved state away',
}
