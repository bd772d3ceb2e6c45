import { ok } from '../lib/result.ts'
import { storeDesired } from './store-desired.ts'
import { wakeVm } from './wake-vm.ts'
import type { DesiredPower } from '../core/vm/desired.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { CommandContext, CommandResult } from './context.ts'

/**
 * Stores the desired power state. `stopped` is always a hard stop. `running` also wakes a VM that shall run and sleeps,
 * which changes nothing that is desired.
 */
export function setPower(context: CommandContext, id: VmId, power: DesiredPower): CommandResult {
  const reason = `power ${power}`
  const result = storeDesired(context, id, { reason, decide: ({ desired }) => ok({ ...desired, power }) })
  if (!result.ok || power !== 'running') return result
  wakeVm(context, id, 'power')
  // As it is now: the plan of a rehearsal goes by it.
  return ok({ ...result.value, record: context.store.vms.get(id) ?? result.value.record })
}
