import { limits } from '../../config/limits.ts'
import { areHeld } from '../idle/traffic-state.ts'
import { isAsleep, isGone, isSaved, wakeReason } from '../plan/plan-wake.ts'
import { mustEnd } from './stops.ts'
import type { Delivery } from '../idle/traffic-state.ts'
import type { Facts } from '../plan/facts.ts'
import type { World } from '../plan/world.ts'
import type { Observed, VmRecord } from './record.ts'
import type { LastWake, PendingWake } from './wake.ts'

/**
 * The wake that begins with this look, or comes to restore the guest, to be written down before its next step; undefined
 * where none does.
 */
export function wakeThatBegins(
  record: VmRecord,
  world: World,
  { nowMs, capabilities }: Pick<Facts, 'nowMs' | 'capabilities'>,
): PendingWake | undefined {
  const { saved, traffic } = world
  if (mustEnd(record)) return undefined
  if (!saved.known || saved.value.kind !== 'present') return undefined
  const hasBegun = record.wake?.savedAtMs !== undefined
  const restores = isAsleep(world) ? { restores: true as const } : {}
  if (hasBegun && (!isAsleep(world) || record.wake.restores === true)) return undefined
  const reason = wakeReason(record, world, capabilities)
  if (reason === undefined) return undefined
  const begun = { savedAtMs: saved.value.savedAtMs, ...restores }
  if (record.wake !== undefined) return { ...record.wake, ...begun }
  const wantedSinceMs =
    traffic.known && traffic.value.kind === 'watched' ? traffic.value.wantedSinceMs : undefined
  return { reason, atMs: reason === 'traffic' ? (wantedSinceMs ?? nowMs) : nowMs, ...begun }
}

/** The wake with what was just given to the guest. */
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

/** What the record shows once its wake is over; undefined where there is none, or it is not over. */
export function wakeThatEnds(
  record: VmRecord,
  world: World,
  nowMs: number,
): Pick<Observed, 'lastWake' | 'shortSleeps'> | undefined {
  const { wake, observed } = record
  if (wake === undefined) return undefined
  if (mustEnd(record)) {
    // What the unit is that is still there must be known for as long as it is.
    const isKnownGone = world.unit.known && isGone(world.unit.value)
    return wake.restores === true && !isKnownGone ? undefined : {}
  }
  if (!isAwake(record, world)) return undefined
  const { savedAtMs } = wake
  // Asked for while the guest was there: it is no wake, and shall not become one of a later sleep.
  if (savedAtMs === undefined) return {}
  const isShort = wake.reason === 'traffic' && wake.atMs - savedAtMs < limits.shortSleepMs
  return { lastWake: lastWakeOf(wake, nowMs), shortSleeps: isShort ? (observed.shortSleeps ?? 0) + 1 : 0 }
}

const lastWakeOf = ({ reason, atMs, delivery }: PendingWake, nowMs: number): LastWake => ({
  reason,
  atMs,
  durationMs: Math.max(0, (delivery?.atMs ?? nowMs) - atMs),
  heldPackets: delivery?.delivered ?? 0,
  droppedPackets: delivery?.dropped ?? 0,
})

/** The guest is there as is desired, nothing that it could be woken from is left, and frames go to it. */
function isAwake({ desired, wake }: VmRecord, { unit, monitor, saved, traffic }: World): boolean {
  if (!unit.known || unit.value.kind !== 'active' || !monitor.known) return false
  const { kind } = monitor.value
  const lives = kind === 'running' || kind === 'stalled' || (kind === 'paused' && desired.power === 'paused')
  if (!lives || !saved.known || isSaved(saved.value)) return false
  if (desired.network === undefined) return true
  // Of a guest that was not away, no frames are kept for long.
  return traffic.known ? !areHeld(traffic.value) : wake?.savedAtMs === undefined
}
