import { unreachable } from '../../lib/assert.ts'
import type { MonitorState, UnitState } from '../plan/world.ts'
import type { DesiredPower } from '../vm/desired.ts'

/**
 * Whether the disk of a VM can be captured as it is now: `still` where no guest writes to it, `running` where one does and must
 * be stopped for a moment, and else why it has to wait: something is on the move there.
 */
export type CaptureMoment =
  | { readonly kind: 'still' }
  | { readonly kind: 'running' }
  | { readonly kind: 'not_now'; readonly because: string }

/** `monitor` is that of an active unit. */
export function captureMoment(
  unit: UnitState,
  monitor: MonitorState | undefined,
  power: DesiredPower,
): CaptureMoment {
  switch (unit.kind) {
    case 'absent':
    case 'failed':
      return { kind: 'still' }
    case 'activating':
    case 'deactivating':
      return notNow(`its unit is ${unit.kind}`)
    case 'foreign':
      return notNow(`a unit of its name is there, and ${unit.because}`)
    case 'leftover':
      return notNow('processes are left of it, which may write to its disk')
    case 'active':
      return momentOfGuest(monitor ?? { kind: 'silent' }, power)
    default:
      return unreachable(unit)
  }
}

function momentOfGuest({ kind }: MonitorState, power: DesiredPower): CaptureMoment {
  switch (kind) {
    case 'running':
      return power === 'stopped' ? notNow('its guest is about to be ended') : { kind: 'running' }
    case 'paused':
      // Else it is about to go on, and its file systems may still be frozen from a capture that was cut off.
      return power === 'paused' ? { kind: 'still' } : notNow('the guest is paused and should be running')
    case 'silent':
    case 'restoring':
    case 'stalled':
    case 'broken':
      return notNow(`its monitor is ${kind}`)
    default:
      return unreachable(kind)
  }
}

const notNow = (because: string): CaptureMoment => ({ kind: 'not_now', because })
