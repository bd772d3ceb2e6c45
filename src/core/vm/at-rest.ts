import { unreachable } from '../../lib/assert.ts'
import type { SavedState } from '../world/saved-state.ts'
import type { UnitState } from '../world/world.ts'
import type { Departure } from '../migration/departure.ts'

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
