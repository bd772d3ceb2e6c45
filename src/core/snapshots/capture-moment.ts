import { unreachable } from '../../lib/assert.ts'
import type { MonitorState, UnitState } from '../world/world.ts'
import type { DesiredPower } from '../desired.ts'

/**
 * Says whether the disk of a VM can be captured now. `at_rest`: no guest writes to it. `running`: a guest writes to it
 * and must be paused for a moment. Otherwise the capture must wait, because the VM is changing.
 */
export type CaptureMoment =
  | { readonly kind: 'at_rest' }
  | { readonly kind: 'running' }
  | { readonly kind: 'not_now'; readonly because: string }

/** Returns the moment; `monitor` is that of an active unit. */
export function captureMoment(
  unit: UnitState,
  monitor: MonitorState | undefined,
  power: DesiredPower,
): CaptureMoment {
  switch (unit.kind) {
    case 'absent':
    case 'failed':
      return { kind: 'at_rest' }
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
      // Otherwise the guest is about to resume, and its file systems may still be frozen from an interrupted capture.
      return power === 'paused' ? { kind: 'at_rest' } : notNow('the guest is paused and should be running')
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
