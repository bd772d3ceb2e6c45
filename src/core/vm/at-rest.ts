import { unreachable } from '../../lib/assert.ts'
import { deletionDueMs } from './exit-policy.ts'
import { isHeldBack, isLeaving } from './leaving.ts'
import { owesStop } from './record.ts'
import type { SavedState } from '../world/saved-state.ts'
import type { UnitState } from '../world/world.ts'
import type { Departure } from '../migration/departure.ts'
import type { ObservedState, VmRecord } from './record.ts'

/**
 * Returns whether a guest that is handed over has come to rest: no process can write to its disk, and its memory is saved if it
 * moves too. `lost`: it never will, because the guest has ended without that.
 */
export function restOf(
  { mode, lived }: Pick<Departure, 'mode' | 'lived'>,
  unit: UnitState,
  saved: SavedState,
): 'moving' | 'at_rest' | 'lost' {
  if (unit.kind !== 'absent') return 'moving'
  const hasMemory = mode === 'live' && lived !== 'stopped'
  switch (saved.kind) {
    case 'present':
      return hasMemory ? 'at_rest' : 'moving'
    case 'unusable':
      return hasMemory ? 'lost' : 'moving'
    case 'absent':
    case 'unfinished':
      return hasMemory ? 'lost' : 'at_rest'
    default:
      return unreachable(saved)
  }
}

/** Returns whether a VM in this state has no guest that runs. */
export const hasNoGuest = (state: ObservedState): boolean => state === 'sleeping' || state === 'stopped'

/**
 * Returns whether a VM is settled without a guest and, by its record, nothing is left to do for it, now or at a known
 * time.
 */
export function isAtRest(record: VmRecord): boolean {
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
