import { isHeldBack } from '../vm/leaving.ts'
import { mustEnd } from '../vm/record.ts'
import { isSaved } from '../world/saved-state.ts'
import { inOrder, when } from './facet.ts'
import { askToEnd } from './plan-power.ts'
import { saveAnyway } from './plan-sleep.ts'
import { WAIT_FOR_HOST, waitForMonitor, waitForUnit } from './plan-waits.ts'
import { hasWholeGuest, removeUnusable } from './plan-wake.ts'
import type { Grace, VmRecord } from '../vm/record.ts'
import type { UnusableState } from '../world/saved-state.ts'
import type { World } from '../world/world.ts'
import type { Facet, Facts, GuestAtShutdown } from './facet.ts'
import type { Plan } from './step.ts'

/** The facts while the host shuts down. */
type EndFacts = Facts & { readonly guestAtShutdown: GuestAtShutdown }

/**
 * Plans for a host that shuts down. A guest that is there is saved and stays paused, or is asked to end. systemd ends
 * its unit afterwards, and accepts no stop from the daemon any more. Nothing is started, and nothing is removed but a
 * saved state that cannot be used. A guest within the grace of a stop is asked to end as before. One that must stop at
 * once ends with its unit.
 */
export const planHostEnd = (record: VmRecord, world: World, facts: EndFacts): Plan =>
  inOrder(
    () => endOf(record, world, facts),
    () => WAIT_FOR_HOST,
  )

const BECAUSE = 'the host shuts down'

function endOf(record: VmRecord, world: World, facts: EndFacts): Facet {
  const { grace } = record.stops
  if (grace !== undefined) return endInGrace(record, world, { ...facts, grace })
  return mustEnd(record) ? [] : endGuest(record, world, facts)
}

/** Asks a guest to end within the grace of its stop. A saved one stays saved, and ends after the boot. */
const endInGrace = (record: VmRecord, world: World, facts: Facts & { readonly grace: Grace }): Facet =>
  when('unit', world.unit, ({ kind }) => {
    if (kind === 'activating') return waitForUnit('the unit to start')
    if (kind !== 'active') return []
    return when('monitor', world.monitor, ({ kind: seen }) => {
      if (seen === 'silent') return waitForMonitor(facts.silentMs)
      if (seen === 'running') return askToEnd(record, world, facts)
      return seen === 'paused' ? resumeToEnd(world) : []
    })
  })

const resumeToEnd = ({ saved }: World): Facet =>
  when('storage', saved, (state) =>
    isSaved(state)
      ? []
      : [{ kind: 'monitor.ensure-running', because: 'a paused guest cannot end by itself' }],
  )

function endGuest(
  record: VmRecord,
  { unit, monitor, saved, traffic }: World,
  { silentMs, guestAtShutdown, capabilities }: EndFacts,
): Facet {
  return when('unit', unit, ({ kind }) => {
    if (kind === 'activating') return waitForUnit('the unit to start')
    if (kind !== 'active') return []
    if (guestAtShutdown.do === 'leave') return waitToAskAgain(guestAtShutdown.askAgainMs)
    return when('storage', saved, (state) => {
      if (state.kind === 'unusable') return resumeUnsaved(record, monitor, state)
      if (state.kind === 'present') return []
      if (guestAtShutdown.do === 'save')
        return capabilities.save ? saveAnyway({ monitor, traffic }, silentMs, BECAUSE) : []
      return when('monitor', monitor, ({ kind: seen }) => {
        // A monitor that was just started does not answer yet.
        if (seen === 'silent') return waitForMonitor(silentMs)
        return seen === 'running' ? [{ kind: 'monitor.ask-to-end', because: BECAUSE }] : []
      })
    })
  })
}

/** Waits until a guest is asked again. A guest that boots does not hear it. */
const waitToAskAgain = (askAgainMs: number): Facet => ({
  ...WAIT_FOR_HOST,
  recheckMs: Math.min(WAIT_FOR_HOST.recheckMs, askAgainMs),
})

/**
 * Removes a saved state that cannot be used, and resumes its guest, so that it can be saved again or asked to end. The
 * guest stays as it is if a move holds it back here, or if only the program that would restore it is missing, which may
 * be there after the boot.
 */
const resumeUnsaved = (record: VmRecord, monitor: World['monitor'], saved: UnusableState): Facet =>
  when('monitor', monitor, (seen) => {
    if (saved.code === 'monitor_missing' || isHeldBack(record) || !hasWholeGuest(record, seen)) return []
    const remove = removeUnusable(saved)
    if (record.desired.power !== 'running') return [remove]
    return [remove, { kind: 'monitor.ensure-running', because: remove.because }]
  })
