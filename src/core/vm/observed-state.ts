import { unreachable } from '../../lib/assert.ts'
import { isAsleep, isSaved } from '../plan/plan-wake.ts'
import { owesStop } from './stops.ts'
import type { Blocked, Plan, Step } from '../plan/step.ts'
import type { World } from '../plan/world.ts'
import type { ObservedState, VmRecord } from './record.ts'

/** The state to show, from what was seen and what will be done. */
export function observedState(record: VmRecord, world: World, plan: Plan): ObservedState {
  if (record.deleting) return 'deleting'
  switch (plan.outcome) {
    case 'settled':
      return isAsleep(world) && record.desired.power !== 'stopped' ? 'sleeping' : record.desired.power
    case 'wait':
      if (plan.for === 'the unit to stop') return 'stopping'
      if (plan.for === 'the monitor to answer' && wasThere(record, world)) return record.observed.state
      return isWaking(record) ? 'waking' : 'starting'
    case 'blocked':
      return whileBlocked(record, world, plan)
    case 'act':
      return whileActing(record, world, plan.steps)
    default:
      return unreachable(plan)
  }
}

/**
 * The state beside a fault. A guest that is seen shows what it is where only a look failed, and a VM that shall be
 * stopped and is, is stopped. Where unit or guest could not be seen, the last state stands. A second failed look at the
 * network in a row is a failure like that of a step.
 */
function whileBlocked(record: VmRecord, world: World, { step }: Blocked): ObservedState {
  if (isNetworkLost(record, step)) return failedState(record, world)
  const seen = seenState(world)
  const looked = step.endsWith('.inspect')
  // What is saved outlives an outage of what it is looked at through.
  if (seen === 'stopped' && looked && isAway(record) && !owesStop(record)) return record.observed.state
  if (seen === 'stopped') return failedState(record, world)
  return looked ? (seen ?? record.observed.state) : 'failed'
}

/** The network could not be looked at, and no better the time before: nothing holds it to what is desired. */
const isNetworkLost = ({ observed }: VmRecord, step: string): boolean =>
  step === 'network.inspect' && observed.fault?.step === step

/**
 * The state after a step failed. A VM that was stopped does not fail for what it needs only when it starts again; one of
 * which something is left is not stopped yet.
 */
export function failedState(record: VmRecord, world: World): ObservedState {
  if (seenState(world) !== 'stopped' || record.observed.disk === undefined) return 'failed'
  if (owesStop(record)) return 'stopping'
  return record.desired.power === 'stopped' ? 'stopped' : 'failed'
}

function whileActing(record: VmRecord, world: World, steps: readonly Step[]): ObservedState {
  const kinds = new Set(steps.map((step) => step.kind))
  if (owesStop(record)) return 'stopping'
  if (kinds.has('unit.ensure-stopped') && record.desired.power === 'stopped') return 'stopping'
  // To save a guest and to end its unit takes nothing from who wants it: it is back where a packet comes.
  if (kinds.has('monitor.ensure-saved')) return 'running'
  if (isWaking(record)) return 'waking'
  if (isSavedInUnit(world)) return 'running'
  if (isAsleep(world)) return 'sleeping'
  if (kinds.has('image.ensure-fetched') || (kinds.has('storage.ensure-disk') && isFirstDisk(world))) {
    return 'pending'
  }
  if (kinds.has('unit.ensure-started') || kinds.has('monitor.ensure-running')) return 'starting'
  if (kinds.has('unit.ensure-stopped')) return 'starting'
  if (kinds.has('monitor.ensure-paused')) return 'pausing'
  // Steps that touch neither unit nor guest leave the state as it is seen.
  return seenState(world) ?? record.observed.state
}

/** The guest of this very unit was seen: a monitor that does not answer for a moment is not a start. */
const wasThere = ({ observed }: VmRecord, { unit }: World): boolean =>
  unit.known &&
  unit.value.kind === 'active' &&
  unit.value.startedAtMs === observed.startedAtMs &&
  (observed.state === 'running' || observed.state === 'paused')

const isAway = ({ observed: { state }, desired }: VmRecord): boolean =>
  desired.power !== 'stopped' && (state === 'sleeping' || state === 'waking')

/** On the way back from what was saved, until the guest is there and has what was held for it. */
const isWaking = ({ wake }: VmRecord): boolean => wake?.savedAtMs !== undefined

const isSavedInUnit = ({ unit, saved }: World): boolean =>
  unit.known && unit.value.kind === 'active' && saved.known && isSaved(saved.value)

/** What unit and monitor show; undefined where one of them could not be looked at, or is on its way. */
function seenState({ unit, monitor }: World): 'running' | 'paused' | 'stopped' | undefined {
  if (!unit.known) return undefined
  switch (unit.value.kind) {
    case 'absent':
    case 'failed':
    case 'leftover':
    case 'foreign':
      return 'stopped'
    case 'activating':
    case 'deactivating':
      return undefined
    case 'active':
      break
    default:
      return unreachable(unit.value)
  }
  if (!monitor.known) return undefined
  switch (monitor.value.kind) {
    case 'running':
      return 'running'
    case 'paused':
    case 'stalled':
      return 'paused'
    case 'silent':
    case 'restoring':
    case 'broken':
      return undefined
    default:
      return unreachable(monitor.value)
  }
}

const isFirstDisk = ({ storage }: World): boolean => storage.known && storage.value.disk.kind === 'absent'
