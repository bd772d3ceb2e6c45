import { isDeepStrictEqual } from 'node:util'
import { deletionDueMs } from '../../core/vm/exit-policy.ts'
import { isLeaving, refuseWhileMoving } from '../../core/vm/leaving.ts'
import { err, ok } from '../../lib/result.ts'
import { changeableVm } from './store-desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { Metadata } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Stores labels, protection or both. They are not desired state, so no generation rises. While a migration is not
 * decided, they are refused: the destination has read them already.
 */
export function setMetadata(context: CommandContext, id: VmId, change: Partial<Metadata>): CommandResult {
  const { store, now, newOperationId } = context
  const result = store.transaction((): CommandResult => {
    const found = changeableVm(store, id)
    if (!found.ok) return found
    const metadata = { ...found.value.metadata, ...change }
    if (isDeepStrictEqual(found.value.metadata, metadata)) return ok({ record: found.value, changed: false })
    const refusal = isLeaving(found.value) ? refuseWhileMoving(found.value) : undefined
    if (refusal !== undefined) return err(refusal)
    const record = store.vms.changeMetadata(id, metadata, now())
    return ok({ record, changed: true, operationId: newOperationId() })
  })
  // A deletion that protection held back may be due, and the worker would not look for long.
  if (result.ok && result.value.changed && deletionDueMs(result.value.record) !== undefined)
    context.notice(id, 'deletion possible')
  return result
}
