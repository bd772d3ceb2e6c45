import { isDeepStrictEqual } from 'node:util'
import { ok } from '../../lib/result.ts'
import { changeableVm } from './changeable-vm.ts'
import type { VmId } from '../../core/ids.ts'
import type { Metadata } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/** Stores labels and protection. They do not affect the host, so no generation rises. */
export function setMetadata(context: CommandContext, id: VmId, metadata: Metadata): CommandResult {
  const { store, now, newOperationId } = context
  return store.transaction(() => {
    const found = changeableVm(store, id)
    if (!found.ok) return found
    if (isDeepStrictEqual(found.value.metadata, metadata)) return ok({ record: found.value, changed: false })
    const record = store.vms.changeMetadata(id, metadata, now())
    return ok({ record, changed: true, operationId: newOperationId() })
  })
}
