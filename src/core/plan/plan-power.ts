import { limits } from '../../config/limits.ts'
import { unreachable } from '../../lib/assert.ts'
import { mayHaveSaved } from '../vm/at-rest.ts'
import { hasEnded } from '../vm/exit-policy.ts'
import { mustEnd, owesStop } from '../vm/record.ts'
import { isSaved } from '../world/saved-state.ts'
import { brokenWords, leftoverWords } from '../world/world.ts'
import { when, inOrder } from './facet.ts'
import { endConsole, storeConsole } from './plan-console.ts'
import { ensureMemory } from './plan-memory.ts'
import { removeUnfinished } from './plan-sleep.ts'
import { WAIT_FOR_MAINTENANCE, waitForMonitor, waitForUnit, whenUnit } from './plan-waits.ts'
import type { Grace, VmRecord } from '../vm/record.ts'
import type { MonitorState, UnitState, World } from '../world/world.ts'
import type { Facet, Facts } from './facet.ts'

/** The reason of each removal of a VM that is deleted. */
export const DELETED = 'the VM is being deleted'

/** Ends a unit that must go: the VM must stop, its guest has ended, or a failed unit prevents a start. */
export function removeUnit(record: VmRecord, world: World): Facet {
  return when('unit', world.unit, (unit) => {
    const because = whyRemoveUnit(record, unit, world)
    return because === undefined ? [] : [{ kind: 'unit.ensure-stopped', because }]
  })
}

function whyRemoveUnit(record: VmRecord, unit: UnitState, { monitor, saved }: World): string | undefined {
  if (unit.kind === 'absent' || unit.kind === 'foreign') return undefined
  if (unit.kind === 'leftover') return leftoverWords(unit)
  if (record.deleting) return DELETED
  if (mustEnd(record)) return whyStop(record)
  if (hasEnded(record)) return 'the guest has ended, and its restart policy lets it rest'
  if (unit.kind === 'failed') return 'a failed unit is in the way of a start'
  if (unit.kind === 'active' && monitor.known && monitor.value.kind === 'broken') {
    return brokenWords(monitor.value)
  }
  const waits = unit.kind === 'active' && monitor.known && monitor.value.kind === 'restoring'
  if (waits && saved.known && !isSaved(saved.value)) {
    return 'the monitor waits for a saved guest that is gone'
  }
  return undefined
}

/** Returns why the rest of a guest that must end is removed. */
const whyStop = ({ desired }: VmRecord): string =>
  desired.power === 'stopped' ? 'desired power is stopped' : 'a stop was accepted and comes before any start'

/** Starts, pauses or resumes the guest. */
export function ensurePower(record: VmRecord, world: World, facts: Facts): Facet {
  return whenUnit(world, {
    gone: () => start(record, world, facts),
    active: () => when('monitor', world.monitor, (monitor) => pauseOrResume(record, monitor, facts.silentMs)),
  })
}

/** Asks a guest to end, and again from time to time, because a guest that boots does not hear it. */
export function askToEnd(
  { id }: VmRecord,
  world: World,
  { nowMs, grace: { untilMs, askedAtMs } }: Pick<Facts, 'nowMs'> & { readonly grace: Grace },
): Facet {
  return when('unit', world.unit, (unit) => {
    if (unit.kind === 'activating') return waitForUnit('the unit to start')
    if (unit.kind !== 'active') return waitForUnit('the unit to stop')
    const againMs = askedAtMs === undefined ? 0 : askedAtMs + limits.askToEndAgainMs - nowMs
    // If the clock was set back, the guest is asked at once.
    if (againMs <= 0 || againMs > limits.askToEndAgainMs)
      return [{ kind: 'monitor.ask-to-end', because: `${id} must stop, and its guest may end by itself` }]
    const leftMs = untilMs - nowMs
    const waitedMs = limits.askToEndAgainMs - againMs
    return {
      outcome: 'wait',
      for: 'the guest to end',
      recheckMs: Math.min(againMs, leftMs),
      deadlineMs: leftMs + waitedMs,
      waitedMs,
    }
  })
}

function start(record: VmRecord, world: World, facts: Facts): Facet {
  const { capabilities } = facts
  if (facts.drain !== undefined) return WAIT_FOR_MAINTENANCE
  const memory = ensureMemory(facts)
  if ('outcome' in memory) return memory
  return when('console', world.console, (console) => {
    const paused = record.desired.power === 'paused' && capabilities.startPaused
    const because = `desired power is ${record.desired.power} and the unit is not active`
    return [
      ...memory,
      ...storeConsole(console),
      { kind: 'unit.ensure-started', paused, restore: false, because },
    ]
  })
}

const whyStalled = ({ status }: MonitorState & { kind: 'stalled' }): string =>
  `the monitor paused the guest: its disk failed (${status})`

function pauseOrResume(record: VmRecord, monitor: MonitorState, silentMs: number): Facet {
  switch (monitor.kind) {
    case 'silent':
      if (silentMs < limits.monitorAnswerMs) return waitForMonitor(silentMs)
      return {
        outcome: 'blocked',
        step: 'monitor.inspect',
        code: 'monitor_unreachable',
        retry: 'backoff',
        because: `the unit is active, but its monitor has not answered for ${limits.monitorAnswerMs / 1000} s`,
      }
    case 'restoring':
      // With a saved guest, wakeGuest or fallAsleepOrResume decides earlier. Without one, removeUnit has planned to end
      // the unit.
      return []
    case 'running':
      return record.desired.power === 'paused'
        ? [{ kind: 'monitor.ensure-paused', because: 'desired power is paused and the guest runs' }]
        : []
    case 'paused':
      return record.desired.power === 'running'
        ? [{ kind: 'monitor.ensure-running', because: 'desired power is running and the guest is paused' }]
        : []
    case 'stalled':
      return record.desired.power === 'running'
        ? [{ kind: 'monitor.ensure-running', because: whyStalled(monitor) }]
        : []
    case 'broken':
      // removeUnit has planned to end the unit in the same plan. The start follows from what the next look shows.
      return []
    default:
      return unreachable(monitor)
  }
}

/** Lists what a stop removes, in this order: the unit, the console session, and the saved state of the guest. */
export const removeGuest = (record: VmRecord, world: World): readonly (() => Facet)[] => [
  () => removeUnit(record, world),
  () => endConsole(world),
  () => removeSaved(record, world),
]

/** Lists what the end of a guest that is not started again removes. */
export const removeEnded = (record: VmRecord, world: World): readonly (() => Facet)[] => [
  () => removeUnit(record, world),
  () => endConsole(world),
  // It may have ended while it was saved.
  () => (world.saved.known || mayHaveSaved(record) ? removeUnfinished(world) : []),
]

/** Returns whether this look finds nothing left for the newest stop to remove, while the record does not say so yet. */
export const isStopCarriedOut = (record: VmRecord, world: World): boolean =>
  owesStop(record) && inOrder(...removeGuest(record, world)).outcome === 'settled'

/** Removes the saved state. If the pool cannot be inspected, the stop waits only when something may be saved there. */
function removeSaved(record: VmRecord, { saved }: World): Facet {
  if (!saved.known && !mayHaveSaved(record)) return []
  return when('storage', saved, ({ kind }) =>
    kind === 'absent' ? [] : [{ kind: 'storage.remove-saved', because: whyStop(record) }],
  )
}
