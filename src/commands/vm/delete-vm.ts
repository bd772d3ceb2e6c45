import { err, ok } from '../../lib/result.ts'
import { existingVm, changeableVm } from './store-desired.ts'
import { isDeepStrictEqual } from 'node:util'
import { isLeaving, refuseDeletion, refuseWhileMoving, withoutOffer } from '../../core/vm/leaving.ts'
import { given } from '../../lib/given.ts'
import type { VmId } from '../../core/ids.ts'
import type { CommandContext, CommandResult } from '../context.ts'
import type { Metadata } from '../../core/vm/record.ts'

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
    if (before.metadata.protected) {
      return err({
        code: 'vm_protected',
        detail: `${id} is protected: set "protected" to false in PUT /v1/vms/${id}/metadata, then delete it`,
      })
    }
    const refusal = refuseDeletion(before, sourceLost)
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

/**
 * Stores labels, protection or both. They do not affect the host, so no generation rises. While a migration is not decided,
 * they are refused: the destination has read them already.
 */
export function setMetadata(context: CommandContext, id: VmId, change: Partial<Metadata>): CommandResult {
  const { store, now, newOperationId } = context
  return store.transaction(() => {
    const found = changeableVm(store, id)
    if (!found.ok) return found
    const metadata = { ...found.value.metadata, ...change }
    if (isDeepStrictEqual(found.value.metadata, metadata)) return ok({ record: found.value, changed: false })
    const refusal = isLeaving(found.value) ? refuseWhileMoving(found.value) : undefined
    if (refusal !== undefined) return err(refusal)
    const record = store.vms.changeMetadata(id, metadata, now())
    return ok({ record, changed: true, operationId: newOperationId() })
  })
}
