import { unreachable } from '../../lib/assert.ts'
import { waitsForOthers } from '../plan/step.ts'
import { isSleepingOrWaking } from '../vm/at-rest.ts'
import { hasEnded } from '../vm/exit-policy.ts'
import { hasLeft, isHeldBack, isNotReleased } from '../vm/leaving.ts'
import { hasBegun, mustEnd, owesBootImages, owesRebuild, owesStop } from '../vm/record.ts'
import { isAsleep, isGone, isInPool, isUnitActive } from '../world/world.ts'
import type { Blocked, Plan, Step } from '../plan/step.ts'
import type { ObservedState, VmRecord } from '../vm/record.ts'
import type { World } from '../world/world.ts'

/** Returns the state to show, from what was seen and what will be done. */
export function observedState(record: VmRecord, world: World, plan: Plan): ObservedState {
  if (record.deleting) return 'deleting'
  const elsewhere = plan.outcome === 'blocked' || needsOwnState(plan) ? undefined : stateElsewhere(record)
  if (elsewhere !== undefined) return elsewhere
  if (record.stops.grace !== undefined && plan.outcome !== 'blocked')
    return isWaking(record) || isAsleep(world) ? 'waking' : 'stopping'
  switch (plan.outcome) {
    case 'settled':
      return settledState(record, world)
    case 'wait':
      if (plan.for === 'the end of maintenance') return isAsleep(world) ? 'sleeping' : 'stopped'
      if (plan.for === 'the host to start again') return stateAtHostEnd(record, world)
      if (waitsForOthers(plan)) return settledState(record, world)
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
 * Returns the state of a VM whose guest is at another host, or still to come from one; undefined if it is here. What is
 * prepared or removed here meanwhile says nothing of that guest.
 */
function stateElsewhere(record: VmRecord): 'migrated' | 'pending' | undefined {
  if (hasLeft(record)) return 'migrated'
  return isNotReleased(record) ? 'pending' : undefined
}

/** Returns whether a wait has lasted for as long as its state, so that its state must begin with it. */
const needsOwnState = (plan: Plan): boolean =>
  plan.outcome === 'wait' && plan.deadlineMs !== undefined && plan.waitedMs === undefined

/** Returns the state of a VM that has nothing left to do here. A guest that another host takes has no unit any more. */
function settledState(record: VmRecord, world: World): ObservedState {
  if (hasEnded(record)) return 'stopped'
  if (isAsleep(world) && record.desired.power !== 'stopped') return 'sleeping'
  return isHeldBack(record) ? (seenState(world) ?? record.observed.state) : record.desired.power
}

/**
 * Returns the state while the host shuts down. Nothing brings a VM without a guest nearer to what is desired then, so
 * its state stays, but for a stop whose guest is gone. The state of a guest which must end stays too: it ends with
 * its unit.
 */
function stateAtHostEnd(record: VmRecord, world: World): ObservedState {
  if (hasStopped(record, world)) return 'stopped'
  const isThere = isAsleep(world) || (isUnitActive(world) && !mustEnd(record))
  return isThere ? settledState(record, world) : record.observed.state
}

/**
 * Returns whether a VM was being stopped, is to stay so, and has no guest any more, neither in a unit nor in the pool.
 * Its console session ends only after the boot, and the stop is carried out then.
 */
const hasStopped = (record: VmRecord, world: World): boolean =>
  record.observed.state === 'stopping' &&
  (record.desired.power === 'stopped' || hasEnded(record)) &&
  world.unit.known &&
  isGone(world.unit.value) &&
  world.saved.known &&
  !isInPool(world)

/**
 * Returns the state to show beside a fault. If only an inspection failed, a guest that is seen is shown as it is. A VM
 * that must be stopped and is stopped is shown as stopped. If the unit or the guest could not be seen, the last state
 * stays. A second failed inspection of the network in a row counts as a failed step.
 */
function whileBlocked(record: VmRecord, world: World, { step }: Blocked): ObservedState {
  if (isNetworkLost(record, step)) return failedState(record, world)
  const seen = seenState(world)
  const looked = step.endsWith('.inspect')
  // A saved state outlives a failure to inspect the pool.
  if (seen === 'stopped' && looked && wasSleepingOrWaking(record) && !owesStop(record))
    return record.observed.state
  if (seen === 'stopped') return failedState(record, world)
  return looked ? (seen ?? record.observed.state) : 'failed'
}

/** Returns whether the network could not be inspected twice in a row. Nothing then keeps it as desired. */
const isNetworkLost = ({ observed }: VmRecord, step: string): boolean =>
  step === 'network.inspect' && observed.fault?.step === step

/**
 * Returns the state after a step failed. A stopped VM is not failed because of what it needs only at its next start. A
 * VM that still has something left of its guest is not stopped yet. A VM that has left is where it is, whatever cannot
 * be removed here.
 */
export function failedState(record: VmRecord, world: World): ObservedState {
  if (hasLeft(record)) return 'migrated'
  if (seenState(world) !== 'stopped' || record.observed.disk === undefined) return 'failed'
  if (owesStop(record)) return 'stopping'
  return record.desired.power === 'stopped' || hasEnded(record) ? 'stopped' : 'failed'
}

function whileActing(record: VmRecord, world: World, steps: readonly Step[]): ObservedState {
  const kinds = new Set(steps.map((step) => step.kind))
  if (owesStop(record) || hasEnded(record)) return 'stopping'
  if (kinds.has('unit.ensure-stopped') && record.desired.power === 'stopped') return 'stopping'
  // A failed save or a failed end of its unit takes no guest away: the next packet brings it back.
  if (kinds.has('monitor.ensure-saved')) return stateOfSaved(record, world)
  if (isWaking(record)) return 'waking'
  if (isSavedInUnit(world)) return stateOfSaved(record, world)
  if (isAsleep(world)) return 'sleeping'
  const getsReady =
    kinds.has('image.ensure-fetched') || (kinds.has('storage.ensure-disk') && isFirstDisk(world))
  // A change of its images leaves a stopped VM stopped.
  const changes = record.desired.power === 'stopped' && (owesRebuild(record) || owesBootImages(record))
  if (getsReady && !changes) return repeatsFailure(record, kinds) ? 'failed' : 'pending'
  // A full pool lets each attempt fail, once a minute.
  if (isStalled(world) && kinds.has('monitor.ensure-running'))
    return record.observed.state === 'failed' ? 'failed' : 'paused'
  if (kinds.has('unit.ensure-started') || kinds.has('monitor.ensure-running')) return 'starting'
  if (kinds.has('unit.ensure-stopped')) return isHeldBack(record) ? 'stopping' : 'starting'
  if (kinds.has('monitor.ensure-paused')) return 'pausing'
  // The other steps touch neither unit nor guest, so the state stays as it is seen.
  return seenState(world) ?? record.observed.state
}

/**
 * Returns whether the VM is shown as failed and these steps try again what failed, for the same desired state. Attempts
 * may fail without end, and each would be two more events. Not for a start: a drain counts the guest that starts.
 */
const repeatsFailure = ({ observed, generations }: VmRecord, kinds: ReadonlySet<string>): boolean =>
  observed.state === 'failed' &&
  observed.fault?.generation === generations.desired &&
  kinds.has(observed.fault.step)

/** Returns the state of a guest that is saved or being saved in its unit. A save pauses also a guest that is to run. */
const stateOfSaved = ({ desired }: VmRecord, world: World): 'running' | 'paused' =>
  desired.power === 'paused' && seenState(world) !== 'running' ? 'paused' : 'running'

/**
 * Returns whether the guest of this very unit was seen before. A monitor that is silent for a moment does not mean a
 * start.
 */
const wasThere = ({ observed }: VmRecord, { unit }: World): boolean =>
  unit.known &&
  unit.value.kind === 'active' &&
  unit.value.startedAtMs === observed.startedAtMs &&
  (observed.state === 'running' || observed.state === 'paused')

const wasSleepingOrWaking = ({ observed: { state }, desired }: VmRecord): boolean =>
  desired.power !== 'stopped' && isSleepingOrWaking(state)

/** Returns whether the guest is being restored. The wake lasts until the guest runs and has its held frames. */
const isWaking = ({ wake }: VmRecord): boolean => hasBegun(wake)

const isSavedInUnit = (world: World): boolean => isUnitActive(world) && isInPool(world)

/** Returns the state that unit and monitor show; undefined if one of them could not be inspected, or is changing. */
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

const isStalled = (world: World): boolean =>
  isUnitActive(world) && world.monitor.known && world.monitor.value.kind === 'stalled'

const isFirstDisk = ({ storage }: World): boolean => storage.known && storage.value.disk.kind === 'absent'
