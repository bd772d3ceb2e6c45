import { ok } from '../../lib/result.ts'
import { storeDesired } from './store-desired.ts'
import { isSeenAway, requestWake, wakeVm } from './wake-vm.ts'
import type { DesiredPower } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Stores the desired power state. `stopped` is always a hard stop. `running` for a sleeping guest is a change even if
 * `running` was desired before: its generation is reached when the guest is back. A request for the power that is
 * already desired makes the worker try again at once, if its last attempt failed.
 */
export function setPower(context: CommandContext, id: VmId, power: DesiredPower): CommandResult {
  const result = storeDesired(context, id, {
    reason: `power ${power}`,
    decide: ({ desired }) => ok({ ...desired, power }),
    setsPowerAnew: (before) => power === 'running' && asksForWake(before),
  })
  if (!result.ok) return result
  const { record, changed } = result.value
  // A repeated request after a failure wants an attempt now, not at the end of the back-off.
  if (!changed && record.observed.fault !== undefined) context.poke(id, `power ${power} again`)
  if (power !== 'running') return result
  // A change has already poked the worker. A second poke would cut short the back-off of what the change leads to.
  if (changed) requestWake(context, id, 'power')
  else wakeVm(context, id, 'power')
  // Reads the record as it is now, because a rehearsal plans with it.
  return ok({ ...result.value, record: context.store.vms.get(id) ?? record })
}

/**
 * Returns whether the request asks for a wake. If the power is not reached yet, it is the same request, and still
 * running.
 */
const asksForWake = (before: VmRecord): boolean =>
  isSeenAway(before) && before.powerGeneration <= before.generations.observed
