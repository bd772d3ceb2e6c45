import { err, ok } from '../../lib/result.ts'
import { existingVm, refuseProtected } from './store-desired.ts'
import { refuseDeletion, withoutOffer } from '../../core/vm/leaving.ts'
import { given } from '../../lib/given.ts'
import type { VmId } from '../../core/ids.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Requests a deletion; the record is removed when nothing of the VM is left on the host.
 *
 * @param sourceLost whether the caller says that the host is lost which has still to release the VM
 */
export function deleteVm(
  context: CommandContext,
  id: VmId,
  { sourceLost = false }: { readonly sourceLost?: boolean | undefined } = {},
): CommandResult {
  const { store } = context
  const result = store.transaction((): CommandResult => {
    const found = existingVm(store, id)
    if (!found.ok) return found
    const before = found.value
    if (before.deleting) return ok({ record: before, changed: false })
    const refusal = refuseProtected(before, 'delete') ?? refuseDeletion(before, sourceLost)
    if (refusal !== undefined) return err(refusal)
    const operationId = context.newOperationId()
    const nowMs = context.now()
    const { departure } = withoutOffer(before, 'deleted', nowMs)
    const record = store.vms.changeDesired(id, {
      deleting: true,
      ...given({ departure }),
      operationId,
      nowMs,
    })
    return ok({ record, changed: true })
  })
  if (result.ok && result.value.changed) context.poke(id, 'delete')
  return result
}
