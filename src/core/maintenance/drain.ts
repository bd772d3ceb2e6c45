import { isHeldBack, isLeaving } from '../vm/leaving.ts'
import { hasBegun, isLaunched, mustEnd, owesStop } from '../vm/record.ts'
import type { ObservedState, VmRecord } from '../vm/record.ts'
import type { VmId } from '../ids.ts'
import type { Drain, Maintenance } from './maintenance.ts'

/** The members of a record that decide how its guest comes to rest. */
export type Drainable = Pick<
  VmRecord,
  'id' | 'desired' | 'deleting' | 'observed' | 'launch' | 'wake' | 'stops' | 'departure' | 'arrival'
>

/**
 * Returns the fact of a plan on a drained host. `hold`: nothing of the VM is started or woken. `save`: besides, its
 * guest is saved. Undefined: the host is not drained, or a stop lets the guest end by itself, which may need the guest.
 */
export function drainFact(
  { state }: Maintenance,
  { wake, stops }: Pick<VmRecord, 'wake' | 'stops'>,
): 'hold' | 'save' | undefined {
  if (state !== 'drained' || stops.grace !== undefined) return undefined
  return wake?.reason === 'maintenance' && !hasBegun(wake) ? 'save' : 'hold'
}

/** A guest that a drained host still has, or what is left of it. */
export type LeftGuest = {
  readonly id: VmId
  /** Whether it comes to rest now. */
  readonly underWay: boolean
}

/** States in which a guest may be in a unit. */
const WITH_GUEST: ReadonlySet<ObservedState> = new Set<ObservedState>([
  'running',
  'paused',
  'starting',
  'pausing',
  'stopping',
  'waking',
])

type Shown = Pick<VmRecord, 'observed' | 'launch'>

/**
 * Returns whether a record shows a guest in a unit. One that cannot be seen counts. A launch of an earlier boot ended
 * with that boot, whatever else the record says.
 */
const hasGuest = (record: Shown, bootId: string): boolean =>
  WITH_GUEST.has(record.observed.state) || isLaunched(record, bootId)

/**
 * Returns whether a record shows a guest, or what is left of one that has ended: its processes may hold the pool open
 * until a look finds them gone.
 */
export const isLeft = (record: Shown, bootId: string): boolean =>
  hasGuest(record, bootId) || hasRemains(record)

const hasRemains = ({ observed: { startedAtMs, partialFaults = [] } }: Shown): boolean =>
  startedAtMs !== undefined || partialFaults.some(({ code }) => code === 'processes_left')

/** A drain, and the boot of the host that it happens in. */
export type OnThisBoot = { readonly drain: Drain; readonly bootId: string }

/** Lists the guests that are left, in the order of ids. */
export const leftGuests = (
  records: readonly Drainable[],
  { drain, bootId }: OnThisBoot,
): readonly LeftGuest[] =>
  records
    .filter((record) => isLeft(record, bootId))
    .map((record) => ({ id: record.id, underWay: isUnderWay(record, drain) }))

/**
 * Returns the guests that begin to come to rest now. A guest that has failed to takes no place, so that it does not
 * keep the others waiting; neither does one with a stop of its own that lasts longer than those of the drain. What is
 * left of a guest that has ended needs no turn, because every plan removes it.
 */
export function nextToRest(records: readonly Drainable[], { drain, bootId }: OnThisBoot): readonly VmId[] {
  const guests = records.filter((record) => hasGuest(record, bootId))
  const taken = guests.filter(
    (record) => takesPlace(record, drain) && record.observed.fault === undefined,
  ).length
  const next = guests.filter((record) => mayBegin(record, drain)).map(({ id }) => id)
  return next.slice(0, Math.max(0, drain.atOnce - taken))
}

const isUnderWay = (record: Drainable, { guests }: Drain): boolean =>
  mustEnd(record) || (guests === 'sleep' && record.wake?.reason === 'maintenance')

function takesPlace(record: Drainable, drain: Drain): boolean {
  const { grace } = record.stops
  const isLong = grace !== undefined && grace.untilMs - grace.fromMs > drain.graceSeconds * 1000
  return isUnderWay(record, drain) && !(mustEnd(record) && isLong)
}

/** Returns whether the guest can begin to come to rest. One that leaves for another host, or wakes, is left alone. */
function mayBegin(record: Drainable, drain: Drain): boolean {
  const { state, savedState } = record.observed
  if (isUnderWay(record, drain) || isLeaving(record) || isHeldBack(record)) return false
  // A unit whose guest is saved ends without a stop, which would throw the memory away.
  if (drain.guests === 'stop') return !owesStop(record) && !(state === 'failed' && savedState !== undefined)
  return record.wake === undefined && (state === 'running' || state === 'paused' || state === 'failed')
}
