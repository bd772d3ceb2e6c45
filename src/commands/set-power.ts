import { ok } from '../lib/result.ts'
import { storeDesired } from './store-desired.ts'
import { isSeenAway, requestWake, wakeVm } from './wake-vm.ts'
import type { DesiredPower } from '../core/vm/desired.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { CommandContext, CommandResult } from './context.ts'

/**
 * Stores the desired power state. `stopped` is always a hard stop. `running` for a guest that is away is a change, although
 * `running` was desired before: its generation is reached when the guest is back. A request for the power that is desired
 * already makes the worker try again at once if its last attempt failed.
 */
export function setPower(context: CommandContext, id: VmId, power: DesiredPower): CommandResult {
  const result = storeDesired(context, id, {
    reason: `power ${power}`,
    decide: ({ desired }) => ok({ ...desired, power }),
    setsPowerAnew: (before) => power === 'running' && asksForWake(before),
  })
  if (!result.ok) return result
  const { record, changed } = result.value
  // Who asks again for what failed wants it now, and not when the back-off ends.
  if (!changed && record.observed.fault !== undefined) context.poke(id, `power ${power} again`)
  if (power !== 'running') return result
  // A change has poked the worker, and a second poke would cut short the back-off of what it leads to.
  if (changed) requestWake(context, id, 'power')
  else wakeVm(context, id, 'power')
  // The record as it is now: a rehearsal plans with it.
  return ok({ ...result.value, record: context.store.vms.get(id) ?? record })
}

/** A power that is not reached yet is the same request, and still under way. */
const asksForWake = (before: VmRecord): boolean =>
  isSeenAway(before) && before.powerGeneration <= before.generations.observed
