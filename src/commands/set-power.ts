import { err, ok } from '../lib/result.ts'
import { existingVm } from './existing-vm.ts'
import type { DesiredPower } from '../core/vm/desired.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { CommandContext, CommandResult } from './context.ts'

/** Stores the desired power state. `stopped` is always a hard stop. */
export function setPower(context: CommandContext, id: VmId, power: DesiredPower): CommandResult {
  const found = existingVm(context.store, id)
  if (!found.ok) return found
  const before = found.value
  if (before.deleting) {
    return err({ code: 'vm_deleting', detail: `${id} is being deleted and takes no further changes` })
  }
  if (before.desired.power === power) return ok({ record: before, changed: false })
  const record = context.store.vms.changeDesired(id, {
    desired: { ...before.desired, power },
    operationId: context.newOperationId(),
    nowMs: context.now(),
  })
  context.poke(id, `power ${power}`)
  return ok({ record, changed: true })
}
