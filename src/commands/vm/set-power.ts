import { err, ok } from '../../lib/result.ts'
import { hasLeft, refuseWhileMoving } from '../../core/vm/leaving.ts'
import { isNewStop, stopOf } from '../../core/vm/stop.ts'
import { storeDesired } from './store-desired.ts'
import { requestWake, wakeVm } from './wake-vm.ts'
import type { Stop, StopTerms } from '../../core/vm/stop.ts'
import type { DesiredPower } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'
import { isSeenAway } from '../../core/vm/at-rest.ts'
import { owesStop } from '../../core/vm/record.ts'
import { hasEnded } from '../../core/vm/exit-policy.ts'

/**
 * Stores the desired power state. `stopped` is a hard stop unless the terms give the guest time. `running` for a
 * sleeping guest is a change even if `running` was desired before: its generation is reached when the guest is back. So
 * is `running` or `paused` for a guest that ended for good. A request for the power that is already desired makes the
 * worker try again at once, if its last attempt failed; it is refused if it asks for a guest that another host has.
 */
export function setPower(
  context: CommandContext,
  id: VmId,
  power: DesiredPower,
  terms: StopTerms = {},
): CommandResult {
  const result = storeDesired(context, id, {
    reason: `power ${power}`,
    decide: (before) => {
      // A repeated request, too: its success would promise a guest that never runs here.
      const left = power !== 'stopped' && hasLeft(before) ? refuseWhileMoving(before) : undefined
      return left === undefined ? ok({ ...before.desired, power }) : err(left)
    },
    stops: (before) => (power === 'stopped' ? askedStop(context, before, terms) : undefined),
    repeatsPower: (before) =>
      (power === 'running' && asksForWake(before)) || (power !== 'stopped' && hasEnded(before)),
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

/** Returns the stop of a request for `stopped`; undefined if it changes nothing. */
function askedStop(context: CommandContext, record: VmRecord, terms: StopTerms): Stop | undefined {
  const before = context.timed(record)
  const stop = stopOf(before, terms, context.now())
  if (before.desired.power !== 'stopped') return stop
  return owesStop(before) && isNewStop(before, stop) ? stop : undefined
}

/**
 * Ends the guest and starts it again, under one generation. The power stays as it is desired. The same request while a
 * reboot is under way changes nothing, unless it asks for an earlier end.
 */
export function rebootVm(context: CommandContext, id: VmId, terms: StopTerms): CommandResult {
  return storeDesired(context, id, {
    reason: 'reboot',
    decide: ({ desired }) =>
      desired.power === 'stopped'
        ? err({ code: 'vm_stopped', detail: `${id} is to be stopped, and cannot reboot: start it` })
        : ok(desired),
    stops: (record) => {
      const before = context.timed(record)
      const stop = stopOf(before, terms, context.now())
      return isNewStop(before, stop) ? stop : undefined
    },
  })
}

/**
 * Returns whether the request asks for a wake. If the power is not reached yet, it is the same request, and still
 * running.
 */
const asksForWake = (before: VmRecord): boolean =>
  isSeenAway(before.observed) && before.powerGeneration <= before.generations.observed
