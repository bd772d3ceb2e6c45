import { unreachable } from '../../lib/assert.ts'
import { isInPool } from '../world/world.ts'
import { deletionDueMs } from './exit-policy.ts'
import { isHeldBack, isLeaving } from './leaving.ts'
import { movesWithMemory } from './manifest.ts'
import { owesStop } from './record.ts'
import type { SavedState } from '../world/saved-state.ts'
import type { UnitState, World } from '../world/world.ts'
import type { Departure } from '../migration/departure.ts'
import type { Observed, ObservedState, VmRecord } from './record.ts'

/**
 * Returns whether a guest can be handed over now: no process can write to its disk, and its memory is saved if it moves
 * too. `lost`: it never can, because the guest has ended without that.
 */
export function handoverReadiness(
  { mode, lived }: Pick<Departure, 'mode' | 'lived'>,
  unit: UnitState,
  saved: SavedState,
): 'not_yet' | 'ready' | 'lost' {
  if (unit.kind !== 'absent') return 'not_yet'
  const hasMemory = movesWithMemory({ mode, power: lived })
  switch (saved.kind) {
    case 'present':
      return hasMemory ? 'ready' : 'not_yet'
    case 'unusable':
      return hasMemory ? 'lost' : 'not_yet'
    case 'absent':
    case 'unfinished':
      return hasMemory ? 'lost' : 'ready'
    default:
      return unreachable(saved)
  }
}

/** The members of a record that say whether its guest may be saved. */
type Savable = Pick<VmRecord, 'mayBeSaved' | 'observed'>

/** Returns whether a guest may be saved, judged by the record alone. */
export const mayHaveSaved = ({ mayBeSaved, observed }: Savable): boolean =>
  mayBeSaved === true || observed.savedState !== undefined

/**
 * Returns whether a saved guest may be in the pool: it has not ended, whatever happened to its unit. If the pool cannot
 * be inspected, the record decides.
 */
export const mayBeInPool = (record: Savable, world: Pick<World, 'saved'>): boolean =>
  world.saved.known ? isInPool(world) : mayHaveSaved(record)

/** Returns whether a VM in this state has no guest that runs. */
export const hasNoGuest = (state: ObservedState): boolean => state === 'sleeping' || state === 'stopped'

/** Returns whether the guest of a VM in this state is asleep, or on its way back. */
export const isSleepingOrWaking = (state: ObservedState): boolean =>
  state === 'sleeping' || state === 'waking'

/**
 * Returns whether the guest was last seen asleep or waking. A guest that is saved, and that a fault keeps from waking,
 * counts too.
 */
export const isSeenAway = ({ state, savedState }: Pick<Observed, 'state' | 'savedState'>): boolean =>
  isSleepingOrWaking(state) || savedState !== undefined

/**
 * Returns whether a VM is settled without a guest and, by its record, nothing is left to do for it, now or at a known
 * time.
 */
export function needsNoLook(record: VmRecord): boolean {
  const { generations, observed, deleting, wake, memoryWantedAtMs, stops } = record
  const isWell =
    observed.fault === undefined && observed.partialFaults === undefined && observed.waitingFor === undefined
  const isAskedFor = deleting || wake !== undefined || memoryWantedAtMs !== undefined
  const ends = owesStop(record) || stops.grace !== undefined || deletionDueMs(record) !== undefined
  const moves = isLeaving(record) || isHeldBack(record)
  return (
    hasNoGuest(observed.state) &&
    generations.observed === generations.desired &&
    isWell &&
    !isAskedFor &&
    !ends &&
    !moves
  )
}
