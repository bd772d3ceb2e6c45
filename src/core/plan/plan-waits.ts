import { limits } from '../../config/limits.ts'
import { unreachable } from '../../lib/assert.ts'
import { when } from './facet.ts'
import { waiting } from './step.ts'
import type { World } from '../world/world.ts'
import type { Facet } from './facet.ts'
import type { Waiting } from './step.ts'

/** Evaluates the facet of a unit that is gone or active. Waits while it starts or stops, and leaves a foreign one. */
export function whenUnit(
  { unit }: World,
  { gone, active }: { readonly gone: () => Facet; readonly active: () => Facet },
): Facet {
  return when('unit', unit, ({ kind }) => {
    switch (kind) {
      case 'absent':
      case 'failed':
      case 'leftover':
        return gone()
      case 'activating':
        return waitForUnit('the unit to start')
      case 'active':
        return active()
      case 'deactivating':
        return waitForUnit('the unit to stop')
      case 'foreign':
        return []
      default:
        return unreachable(kind)
    }
  })
}

/** Waits for a unit that is on its way. Beyond the bound, that is a fault. */
export const waitForUnit = (what: 'the unit to start' | 'the unit to stop'): Facet => ({
  outcome: 'wait',
  for: what,
  recheckMs: limits.unitRecheckMs,
  deadlineMs: limits.unitWaitMs,
})

/** Waits for an answer; a monitor may take `limits.monitorAnswerMs` for any answer. */
export const waitForMonitor = (silentMs: number): Waiting => ({
  outcome: 'wait',
  for: 'the monitor to answer',
  recheckMs: monitorRecheckMs(silentMs),
  deadlineMs: limits.monitorAnswerMs,
  waitedMs: silentMs,
})

/**
 * Returns when to look at a silent monitor again. One that starts answers soon. One that its guest took over may never
 * answer, so the interval grows with the silence.
 */
const monitorRecheckMs = (silentMs: number): number => {
  const leftMs = limits.monitorAnswerMs - silentMs
  const shareMs = Math.round(silentMs * limits.monitorRecheckShare)
  return Math.max(limits.monitorRecheckMs, Math.min(shareMs, leftMs))
}

/** The wait of a guest for its turn. A packet for it ends the wait. */
export const WAIT_FOR_TURN = waiting('a turn to wake')

/** The wait of a guest on a host that is drained. Only the end of the maintenance ends it. */
export const WAIT_FOR_MAINTENANCE = waiting('the end of maintenance')

/**
 * The wait of a VM that has nothing else to do before the destination has taken it, or the offer is withdrawn or ends.
 */
export const WAIT_FOR_DESTINATION = waiting('the destination')

/** The wait of every VM while the host shuts down. The next boot ends it. */
export const WAIT_FOR_HOST = waiting('the host to start again')
