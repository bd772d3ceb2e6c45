import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'
import { isInTurn, wakeReason } from '../plan/plan-wake.ts'
import { hasBegun, hereSinceMs, mustEnd } from '../vm/record.ts'
import { areHeld } from '../world/network-state.ts'
import { isSaved } from '../world/saved-state.ts'
import { isAsleep, isGone, isUnitActive, watchedOf } from '../world/world.ts'
import type { Observed, VmRecord, LastWake, PendingWake } from '../vm/record.ts'
import type { Delivery } from '../world/network-state.ts'
import type { World } from '../world/world.ts'

/**
 * Returns the wake that this look begins, or that now starts to restore the guest; undefined if there is none. The
 * caller records it before the next step.
 */
export function wakeThatBegins(record: VmRecord, world: World, nowMs: number): PendingWake | undefined {
  const { saved } = world
  if (mustEnd(record)) return undefined
  if (!saved.known || saved.value.kind !== 'present') return undefined
  const isUnderWay = hasBegun(record.wake)
  const restores = isAsleep(world) ? { restores: true as const } : {}
  if (isUnderWay && (!isAsleep(world) || record.wake.restores === true)) return undefined
  const reason = wakeReason(record, world)
  if (reason === undefined) return undefined
  const begun = { savedAtMs: saved.value.savedAtMs, ...restores }
  // The time without a host is not a part of the wake.
  const restarts = isInTurn(record.wake?.reason) && !isUnderWay ? { atMs: nowMs } : {}
  if (record.wake !== undefined) return { ...record.wake, ...begun, ...restarts }
  const watched = watchedOf(world)
  if (reason !== 'traffic' || watched?.wantedSinceMs === undefined) return { reason, atMs: nowMs, ...begun }
  return { reason, atMs: watched.wantedSinceMs, ...given({ packet: watched.wantedBy }), ...begun }
}

/** Returns the wake with the frames that were just delivered to the guest. */
export const withDelivery = (
  wake: PendingWake,
  { delivered, dropped }: Delivery,
  nowMs: number,
): PendingWake => ({
  ...wake,
  delivery: {
    atMs: nowMs,
    delivered: delivered + (wake.delivery?.delivered ?? 0),
    dropped: dropped + (wake.delivery?.dropped ?? 0),
  },
})

/** Returns the changes of the record when its wake has ended; undefined if there is no wake, or it has not ended. */
export function wakeThatEnds(
  record: VmRecord,
  world: World,
  nowMs: number,
): Pick<Observed, 'lastWake' | 'wakes' | 'shortSleeps'> | undefined {
  const { wake, observed } = record
  if (wake === undefined) return undefined
  if (mustEnd(record)) {
    // While the unit may still exist, the record must say what the unit is.
    const isKnownGone = world.unit.known && isGone(world.unit.value)
    return wake.restores === true && !isKnownGone ? undefined : {}
  }
  if (!isAwake(record, world, nowMs)) return undefined
  // The request came while the guest was there. It is not a wake, and must not become the wake of a later sleep.
  if (!hasBegun(wake)) return {}
  // When the guest went on is not known, so neither is how long its wake took.
  if (!world.traffic.known && record.desired.network !== undefined) return {}
  const isShort = wake.reason === 'traffic' && wake.atMs - wake.savedAtMs < limits.shortSleepMs
  return {
    lastWake: lastWakeOf(wake, nowMs),
    wakes: countedWakes(record, wake),
    shortSleeps: isShort ? (observed.shortSleeps ?? 0) + 1 : 0,
  }
}

/** Returns the count with one more. A VM that woke before wakes were counted is counted from this one on. */
function countedWakes(record: VmRecord, { atMs }: PendingWake): NonNullable<Observed['wakes']> {
  const { wakes, lastWake } = record.observed
  if (wakes !== undefined) return { ...wakes, count: wakes.count + 1 }
  return { count: 1, sinceMs: (lastWake === undefined ? hereSinceMs(record) : undefined) ?? atMs }
}

const lastWakeOf = ({ reason, atMs, packet, delivery }: PendingWake, nowMs: number): LastWake => ({
  reason,
  atMs,
  ...given({ packet }),
  durationMs: Math.max(0, (delivery?.atMs ?? nowMs) - atMs),
  heldPackets: delivery?.delivered ?? 0,
  droppedPackets: delivery?.dropped ?? 0,
})

/** Returns whether the guest is as desired, nothing saved is left, and frames flow to it. */
function isAwake({ desired, wake }: VmRecord, world: World, nowMs: number): boolean {
  const { monitor, saved, traffic } = world
  if (!isUnitActive(world) || !monitor.known) return false
  const { kind } = monitor.value
  const lives = kind === 'running' || kind === 'stalled' || (kind === 'paused' && desired.power === 'paused')
  if (!lives || !saved.known || isSaved(saved.value)) return false
  if (desired.network === undefined) return true
  return traffic.known ? !areHeld(traffic.value) : !mayHaveFrames(wake, nowMs)
}

/**
 * Returns whether frames may wait for this guest, if its traffic is unknown. Frames for a guest that was not asleep are
 * never held for long. Those of a wake are too old after a while, also on a host that can never know the traffic.
 */
const mayHaveFrames = (wake: PendingWake | undefined, nowMs: number): boolean =>
  hasBegun(wake) && Math.abs(nowMs - wake.atMs) < limits.heldFrameAgeMs
