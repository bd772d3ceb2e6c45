import { hasEnded } from '../vm/exit-policy.ts'
import { hasLeft, isHeldBack, isLeaving, isNotReleased } from '../vm/leaving.ts'
import { owesStop, mustEnd } from '../vm/record.ts'
import { isUnitActive, isSavedOutsideUnit, isGone } from '../world/world.ts'
import { backOffOf } from './back-off.ts'
import { beside, inOrder } from './facet.ts'
import { planArrival } from './plan-arrive.ts'
import { keepConsole, removeConsole } from './plan-console.ts'
import { mustSaveForDrain, planSaveForDrain } from './plan-drain.ts'
import { planHostEnd } from './plan-host-end.ts'
import { planHandover, planLeft } from './plan-leave.ts'
import { ensureAttached, ensureNetwork, leaveFormerAddresses, removeNetwork } from './plan-network.ts'
import { askToEnd, DELETED, ensurePower, removeUnit, removeEnded, removeGuest } from './plan-power.ts'
import {
  dropFrames,
  ensureFlowing,
  ensureHeld,
  ensureWatched,
  removeRemains,
  removeUnfinished,
  sleepWhenIdle,
} from './plan-sleep.ts'
import {
  ensureStorage,
  fetchBootImages,
  changeStoppedDisk,
  hasForeignDisk,
  limitDisk,
  removeDisk,
  showGrowth,
  diskForeign,
} from './plan-storage.ts'
import { WAIT_FOR_DESTINATION } from './plan-waits.ts'
import { fallAsleepOrResume, giveUpConsolePlace, wakeGuest } from './plan-wake.ts'
import { SETTLED } from './step.ts'
import type { Grace, VmRecord } from '../vm/record.ts'
import type { World } from '../world/world.ts'
import type { Facet, Facts } from './facet.ts'
import type { Plan, Blocked } from './step.ts'

/**
 * Returns the steps from what the host shows to what is desired. Synchronous and total: the same arguments give the
 * same plan.
 *
 * The order matters. Removals come first, and an accepted stop comes before any later start. A running guest's power is
 * set before its surroundings are repaired, and a guest ends without a look at storage or network. So neither waits for
 * a fault there, and no surrounding waits for another. A guest that does not run yet is started last, once its disk,
 * tap and firewall are seen to exist.
 */
export function plan(record: VmRecord, world: World, facts: Facts): Plan {
  const planned = planHere(record, world, facts)
  const waits = planned.outcome === 'settled' && !record.deleting && isLeaving(record)
  return waits ? WAIT_FOR_DESTINATION : planned
}

/** Plans what is to be done on this host. */
function planHere(record: VmRecord, world: World, facts: Facts): Plan {
  const foreign = planForeign(record, world)
  if (foreign !== undefined) return foreign
  if (facts.guestAtShutdown !== undefined)
    return planHostEnd(record, world, { ...facts, guestAtShutdown: facts.guestAtShutdown })
  if (record.deleting) {
    return inOrder(
      () => removeUnit(record, world),
      () => removeConsole(world, DELETED),
      () => removeNetwork(world, DELETED),
      () => removeDisk(world, DELETED),
    )
  }
  if (hasLeft(record)) return planLeft(record, world, facts)
  if (isNotReleased(record)) return planArrival(record, record.arrival, { world, facts })
  const { grace } = record.stops
  if (grace !== undefined) return planEnding(record, world, { ...facts, grace })
  if (record.desired.power === 'stopped') return planStopped(record, world, facts)
  if (isHeldBack(record)) return planHandover(record, world, facts)
  if (owesStop(record)) {
    const stop = inOrder(...removeGuest(record, world))
    if (stop.outcome !== 'settled') return stop
  }
  if (hasEnded(record))
    return inOrder(...removeEnded(record, world), () => changeAtRest(record, world, facts))
  if (isUnitActive(world)) return planActive(record, world, facts)
  return isSavedOutsideUnit(world) ? planAsleep(record, world, facts) : planStart(record, world, facts)
}

function planStopped(record: VmRecord, world: World, facts: Facts): Plan {
  const stop = removeGuest(record, world)
  if (isCreation(record)) {
    return inOrder(
      ...stop,
      () => ensureStorage(record, world, facts),
      () => ensureNetwork(world, facts),
    )
  }
  return inOrder(...stop, () => changeAtRest(record, world, facts))
}

/** Plans the changes that a VM without a guest takes at once, and not only at its next start. */
const changeAtRest = (record: VmRecord, world: World, facts: Facts): Facet =>
  beside({
    storage: [() => changeStoppedDisk(record, world), () => fetchBootImages(record, world, facts)],
    network: [() => dropFrames(world), () => leaveFormerAddresses(world, facts)],
  })

/**
 * Plans for a guest that may end by itself, as `withGrace` shows it. A guest that sleeps is woken first: what it has
 * not written to its disk yet would be lost with its saved state.
 */
function planEnding(record: VmRecord, world: World, facts: Facts & { readonly grace: Grace }): Plan {
  const live = isUnitActive(world)
  if (!live && isSavedOutsideUnit(world)) return planAsleep(record, world, facts)
  const saved = live ? planBesideSaved(record, world, facts) : SETTLED
  if (saved.outcome !== 'settled') return saved
  return inOrder(
    () => removeUnit(record, world),
    () => (live ? ensurePower(record, world, facts) : []),
    () => askToEnd(record, world, facts),
  )
}

/** Plans for a guest that is saved in the pool: it stays asleep or is restored, and is never booted. */
function planAsleep(record: VmRecord, world: World, facts: Facts): Plan {
  return inOrder(
    () => removeUnit(record, world),
    () => ensureNetwork(world, facts),
    () => ensureHeld(record, world, facts),
    () => giveUpConsolePlace(record, world, facts),
    () => wakeGuest(record, world, facts),
  )
}

function planStart(record: VmRecord, world: World, facts: Facts): Plan {
  return inOrder(
    () => removeUnit(record, world),
    () => removeUnfinished(world),
    () => ensureStorage(record, world, facts),
    () => ensureNetwork(world, facts),
    () => dropFrames(world),
    () => ensurePower(record, world, facts),
    // In a lane: a guest that runs is not taken back because its traffic cannot be counted.
    () => beside({ network: [() => ensureWatched(record, world, facts)] }),
  )
}

/** Plans for a unit beside a saved state; nothing else may touch its guest before that is decided. */
const planBesideSaved = (record: VmRecord, world: World, facts: Facts): Plan =>
  hasForeignDisk(world) ? SETTLED : inOrder(() => fallAsleepOrResume(record, world, facts))

function planActive(record: VmRecord, world: World, facts: Facts): Plan {
  const saved = planBesideSaved(record, world, facts)
  if (saved.outcome !== 'settled') return saved
  const drained = mustSaveForDrain(world, facts) ? planSaveForDrain(record, world, facts) : undefined
  if (drained !== undefined && isDue(drained, record, facts)) return drained
  const awake = planAwake(record, world, facts)
  // A guest that cannot be saved now is looked after meanwhile.
  if (drained !== undefined) return awake.outcome === 'act' ? awake : drained
  return awake.outcome === 'settled' ? inOrder(() => sleepWhenIdle(record, world, facts)) : awake
}

/** Returns whether the plan has steps that no back-off holds. */
const isDue = (planned: Plan, { observed: { fault } }: VmRecord, { nowMs }: Facts): boolean =>
  planned.outcome === 'act' && backOffOf(planned.steps, fault, nowMs).ms === 0

/** Plans what a guest that runs needs. */
function planAwake(record: VmRecord, world: World, facts: Facts): Plan {
  const isOwn = !hasForeignDisk(world)
  const lanes = {
    power: [() => ensurePower(record, world, facts), () => limitDisk(record, world)],
    console: [() => keepConsole(world)],
    storage: [
      () => (isOwn ? removeRemains(world) : []),
      () => ensureStorage(record, world, facts),
      () => showGrowth(record, world),
    ],
    network: [
      () => ensureNetwork(world, facts),
      () => ensureAttached(world, facts),
      () => ensureWatched(record, world, facts),
      () => ensureFlowing(record, world, facts),
    ],
  }
  return inOrder(
    () => removeUnit(record, world),
    () => beside(lanes),
  )
}

/**
 * Returns whether the power was set by the creation. A VM that is created as stopped is prepared; a later stop only
 * stops it.
 */
const isCreation = ({ powerGeneration }: VmRecord): boolean => powerGeneration === 1

/**
 * Plans for a VM whose name another VM on this host uses, for example after an older state directory was restored. The
 * plan touches nothing of the other VM, and a deletion leaves it in place. Returns undefined if nothing foreign is in
 * the way.
 */
function planForeign(record: VmRecord, world: World): Plan | undefined {
  const { unit, storage } = world
  if (unit.known && unit.value.kind === 'foreign') {
    return record.deleting ? SETTLED : unitForeign(record, unit.value.because)
  }
  if (!storage.known || storage.value.disk.kind !== 'foreign') return undefined
  const blocked = diskForeign(record, storage.value.disk)
  const hasUnit = !unit.known || !isGone(unit.value)
  // A console and a tap without a unit may belong to the other VM, which may be asleep.
  if (record.deleting) return hasUnit ? undefined : SETTLED
  // Console and saved guest are those of this very VM, whichever of its disks is there.
  if (storage.value.disk.ofRebuild !== undefined && mustEnd(record)) return undefined
  if (isUnitActive(world) && !mustEnd(record)) return undefined
  return inOrder(
    () => removeUnit(record, world),
    () => blocked,
  )
}

const unitForeign = ({ id }: VmRecord, because: string): Blocked => ({
  outcome: 'blocked',
  step: 'unit.ensure-started',
  code: 'unit_foreign',
  retry: 'backoff',
  because: `there is a unit with the name of ${id}, and ${because}; stop that unit by hand, or delete VM ${id}`,
})
