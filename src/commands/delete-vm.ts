import { ok } from '../lib/result.ts'
import { existingVm } from './existing-vm.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { CommandContext, CommandResult } from './context.ts'

/** Asks for deletion; the record goes when nothing of the VM is left on the host. */
export function deleteVm(context: CommandContext, id: VmId): CommandResult {
  const found = existingVm(context.store, id)
  if (!found.ok) return found
  if (found.value.deleting) return ok({ record: found.value, changed: false })
  const record = context.store.vms.changeDesired(id, {
    deleting: true,
    operationId: context.newOperationId(),
    nowMs: context.now(),
  })
  context.poke(id, 'delete')
  return ok({ record, changed: true })
}
