import { beside, inOrder } from './facet.ts'
import { planForeign } from './plan-foreign.ts'
import { ensureAttached, ensureNetwork, leaveFormerAddresses, removeNetwork } from './plan-network.ts'
import {
  ensureStorage,
  growStoppedDisk,
  hasForeignDisk,
  limitDisk,
  removeDisk,
  showGrowth,
} from './plan-storage.ts'
import { ensurePower, keepConsole, removeConsole, removeUnit } from './plan-power.ts'
import {
  dropFrames,
  ensureFlowing,
  ensureHeld,
  ensureWatched,
  removeRemains,
  removeUnfinished,
  sleepWhenIdle,
} from './plan-sleep.ts'
import { removeGuest } from './plan-stop.ts'
import { owesStop } from '../vm/stops.ts'
import { fallAsleepOrGoOn, giveUpPlace, isSavedOutsideUnit, wakeGuest } from './plan-wake.ts'
import type { VmRecord } from '../vm/record.ts'
import type { Facts } from './facts.ts'
import type { Plan } from './step.ts'
import type { World } from './world.ts'

/**
 * The way from what the host shows to what is desired. Synchronous, total, the same for the same arguments.
 *
 * The order tells the story. What must go goes first, and a stop that was accepted comes before any later start. A live
 * guest's power is set before its surroundings are mended, and a stop needs no look at storage or network, so neither waits
 * for a fault there; nor does one of its surroundings wait for another. A guest that does not live yet is started last, on a disk, a tap and a firewall that are seen to be
 * there.
 */
export function plan(record: VmRecord, world: World, facts: Facts): Plan {
  const foreign = planForeign(record, world)
  if (foreign !== undefined) return foreign
  if (record.deleting) {
    return inOrder(
      () => removeUnit(record, world),
      () => removeConsole(world),
      () => removeNetwork(world),
      () => removeDisk(world),
    )
  }
  if (record.desired.power === 'stopped') return planStopped(record, world, facts)
  if (owesStop(record)) {
    const stop = inOrder(...removeGuest(record, world))
    if (stop.outcome !== 'settled') return stop
  }
  const live = world.unit.known && world.unit.value.kind === 'active'
  if (live) return planLive(record, world, facts)
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
  const rest = {
    storage: [() => growStoppedDisk(record, world)],
    network: [() => leaveFormerAddresses(world, facts), () => dropFrames(world)],
  }
  return inOrder(...stop, () => beside(rest))
}

/** A guest that is in the pool sleeps on there, or is restored; it is never booted. */
function planAsleep(record: VmRecord, world: World, facts: Facts): Plan {
  return inOrder(
    () => removeUnit(record, world),
    () => ensureNetwork(world, facts),
    () => ensureHeld(record, world, facts),
    () => giveUpPlace(record, world, facts),
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
  )
}

function planLive(record: VmRecord, world: World, facts: Facts): Plan {
  const isOwn = !hasForeignDisk(world)
  const saved = inOrder(() => (isOwn ? fallAsleepOrGoOn(record, world, facts) : []))
  if (saved.outcome !== 'settled') return saved
  const lanes = {
    power: [() => ensurePower(record, world, facts), () => limitDisk(record, world)],
    console: [() => keepConsole(world)],
    storage: [
      () => (isOwn ? removeRemains(world) : []),
      () => ensureStorage(record, world, facts),
      () => showGrowth(record, world, facts),
    ],
    network: [
      () => ensureNetwork(world, facts),
      () => ensureAttached(world, facts),
      () => ensureWatched(record, world, facts),
      () => ensureFlowing(record, world, facts),
    ],
  }
  const awake = inOrder(
    () => removeUnit(record, world),
    () => beside(lanes),
  )
  return awake.outcome === 'settled' ? inOrder(() => sleepWhenIdle(record, world, facts)) : awake
}

/** Its power is that of its creation: a VM that is created stopped is made ready; one that is stopped just stops. */
const isCreation = ({ powerGeneration }: VmRecord): boolean => powerGeneration === 1
