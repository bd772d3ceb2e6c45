import { limits } from '../../config/limits.ts'
import { canSleep } from '../sleep/idle-timeout.ts'
import { mayHaveSaved } from '../vm/at-rest.ts'
import { isHeldBack } from '../vm/leaving.ts'
import { owesGrowth } from '../vm/record.ts'
import { isSaved } from '../world/saved-state.ts'
import { isUnitActive, isLiveMonitor, watchedOf } from '../world/world.ts'
import { when } from './facet.ts'
import { detachConsole, storeConsole } from './plan-console.ts'
import { ensureMemory } from './plan-memory.ts'
import { ensureBootable } from './plan-storage.ts'
import { WAIT_FOR_MAINTENANCE, WAIT_FOR_TURN, waitForMonitor, whenUnit } from './plan-waits.ts'
import type { WakeReason, VmRecord } from '../vm/record.ts'
import type { UnusableState } from '../world/saved-state.ts'
import type { MonitorState, World } from '../world/world.ts'
import type { Facet, Facts } from './facet.ts'
import type { Blocked, Step } from './step.ts'

/** Returns why a saved guest must run again; undefined if it may stay asleep. */
export function wakeReason(record: VmRecord, { traffic, storage }: World): WakeReason | undefined {
  const { desired, wake, generations, powerGeneration } = record
  if (isHeldBack(record)) return undefined
  if (wake !== undefined) return wake.reason
  // A VM falls asleep only when it is settled. So power that is not reached yet was requested afterwards, and needs the
  // guest.
  if (desired.power === 'paused' || powerGeneration > generations.observed) return 'power'
  if (!canSleep(desired)) return 'sleep_disabled'
  if (isTrafficWaiting({ traffic })) return 'traffic'
  // Only a running guest can be shown the new size of its disk.
  const disk = storage.known && storage.value.disk.kind === 'present' ? storage.value.disk : undefined
  return disk !== undefined && disk.sizeMib < desired.disk.sizeMib ? 'change' : undefined
}

/**
 * Blocks the plan of a guest that sleeps on if the record says that its disk must grow, and the pool cannot be
 * inspected. Otherwise the change would be reached without being done.
 */
function requireLookAtGrowth(record: VmRecord, { storage }: World): Facet {
  return owesGrowth(record) && !isHeldBack(record) ? when('storage', storage, () => []) : []
}

/** Returns whether packets wait for a guest that is not there. */
const isTrafficWaiting = (world: Pick<World, 'traffic'>): boolean =>
  watchedOf(world)?.wantedSinceMs !== undefined

/** Returns whether many guests are woken for this reason at once, so that each waits for its turn. */
export const isInTurn = (reason: WakeReason | undefined): boolean =>
  reason === 'host_booted' || reason === 'maintenance'

/** Returns why a saved guest must run again now. On a drained host nothing wakes. */
export const wakeReasonNow = (record: VmRecord, world: World, facts: Facts): WakeReason | undefined =>
  facts.drain === undefined ? wakeReason(record, world) : undefined

/** Gives back the console's place in the descriptor store while the guest sleeps: places are for running guests. */
export function giveUpConsolePlace(record: VmRecord, world: World, facts: Facts): Facet {
  const { saved } = world
  if (!saved.known) return []
  const wakes = saved.value.kind === 'present' && wakeReasonNow(record, world, facts) !== undefined
  return wakes ? [] : detachConsole(world, 'the guest is saved, and needs no terminal until it wakes')
}

/** Restores a saved guest that no unit has, if something wants it; otherwise it stays asleep. */
export function wakeGuest(record: VmRecord, world: World, facts: Facts): Facet {
  return when('storage', world.saved, (saved) => {
    if (saved.kind === 'unusable') return unusable(saved)
    if (saved.kind !== 'present') return []
    return whenUnit(world, {
      gone: () => {
        const reason = wakeReason(record, world)
        if (reason === undefined) return requireLookAtGrowth(record, world)
        if (facts.drain !== undefined) return WAIT_FOR_MAINTENANCE
        if (isInTurn(reason) && !facts.mayRestore && !isTrafficWaiting(world)) return WAIT_FOR_TURN
        return startRestoring(record, world, { facts, reason })
      },
      active: () => [],
    })
  })
}

const unusable = (saved: UnusableState): Blocked => ({
  outcome: 'blocked',
  step: 'monitor.ensure-restored',
  code: saved.code,
  retry: 'backoff',
  because: `${saved.because}; PUT power stopped removes it, and the next start is a boot`,
})

const WHY: { readonly [R in WakeReason]: string } = {
  traffic: 'packets came for the guest',
  power: 'power was asked for',
  console: 'an ssh console was asked for',
  keep_awake: 'it is to stay awake for a while',
  sleep_disabled: 'sleep was disabled',
  change: 'a change needs the guest',
  withdrawn: 'it did not move to another host',
  arrived: 'the source released it',
  host_booted: 'it ran when the host shut down',
  maintenance: 'the maintenance of the host is over',
}

type Wanted = { readonly facts: Facts; readonly reason: WakeReason }

function startRestoring(record: VmRecord, world: World, { facts, reason }: Wanted): Facet {
  const because = `the guest is saved, and ${WHY[reason]}`
  const restored = restorePaused(record, world, { facts, because })
  return 'outcome' in restored ? restored : [...restored, ...resumeSteps(record, facts, because)]
}

/** Restores a saved guest that no unit has, with its vCPUs stopped. */
export function restorePaused(
  record: VmRecord,
  world: World,
  { facts, because }: { readonly facts: Facts; readonly because: string },
): Facet {
  const memory = ensureMemory(facts)
  if ('outcome' in memory) return memory
  const images = ensureBootable(record, world)
  if ('outcome' in images) return images
  return when('console', world.console, (console) => {
    return [
      ...memory,
      ...images,
      ...storeConsole(console),
      { kind: 'unit.ensure-started', paused: true, restore: true, because },
      { kind: 'monitor.ensure-restored', because },
    ]
  })
}

/**
 * Returns the steps that let a saved guest continue in its unit. The saved state is removed first, so that no later
 * start can find it.
 */
function resumeSteps(record: VmRecord, facts: Facts, because: string): Step[] {
  const steps: Step[] = [
    { kind: 'storage.remove-saved', because: 'the guest continues, so its saved state is out of date' },
  ]
  if (record.desired.power === 'running') steps.push({ kind: 'monitor.ensure-running', because })
  if (facts.tap !== undefined) {
    steps.push({ kind: 'traffic.ensure-flowing', deliver: true, because: 'the guest is back' })
  }
  return steps
}

/**
 * Decides about an active unit whose guest is also saved in the pool. Such a guest has not run since it was saved. If
 * nothing wants the guest, its unit ends and it sleeps. Otherwise it resumes as if it had been woken.
 */
export function fallAsleepOrResume(record: VmRecord, world: World, facts: Facts): Facet {
  const { monitor, saved } = world
  if (!isUnitActive(world)) return []
  // A running guest is no longer the one that was saved. removeRemains removes the saved state.
  if (monitor.known && monitor.value.kind === 'running') return []
  if (!saved.known) {
    const waits = monitor.known && monitor.value.kind === 'restoring'
    // Without a look at the pool, the guest may be the saved one. The plan touches neither the guest nor its disk.
    return waits || mayHaveSaved(record) ? when('storage', saved, () => []) : []
  }
  if (!isSaved(saved.value)) return []
  return when('monitor', monitor, ({ kind }) => {
    if (kind === 'broken')
      return [{ kind: 'unit.ensure-stopped', because: 'its monitor broke, and the guest is saved' }]
    if (kind === 'stalled') return resumeSteps(record, facts, 'the guest has run since it was saved')
    const seen = {
      restores: kind === 'restoring' || record.wake?.restores === true,
      silentMs: kind === 'silent' ? facts.silentMs : undefined,
    }
    return saved.value.kind === 'unusable'
      ? ofUnusable(record, facts, { saved: saved.value, ...seen })
      : ofSaved(record, world, { facts, ...seen })
  })
}

/**
 * Holds what is known of an active unit beside a saved state. `restores`: the unit reads, or has read, the saved state;
 * otherwise it is the unit whose guest was saved. This does not compare times, because the clock may have been set
 * since. `silentMs`: how long the monitor has not answered; undefined if it answers.
 */
type Seen = { readonly restores: boolean; readonly silentMs: number | undefined }

function ofSaved(
  record: VmRecord,
  world: World,
  { facts, restores, silentMs }: Seen & { readonly facts: Facts },
): Facet {
  const reason = wakeReasonNow(record, world, facts)
  if (reason === undefined) return [{ kind: 'unit.ensure-stopped', because: 'the guest is saved' }]
  if (silentMs !== undefined) {
    const because = 'the guest is saved, and its monitor does not answer'
    return silentMs < limits.monitorAnswerMs
      ? waitForMonitor(silentMs)
      : [{ kind: 'unit.ensure-stopped', because }]
  }
  const because = `the guest is saved, and ${WHY[reason]}`
  const resume = resumeSteps(record, facts, because)
  return restores ? [{ kind: 'monitor.ensure-restored', because }, ...resume] : resume
}

/** Returns whether a unit beside a saved state has the guest complete, because it saved it and did not read it. */
export const hasWholeGuest = ({ wake }: VmRecord, monitor: MonitorState): boolean =>
  isLiveMonitor(monitor) && wake?.restores !== true

/** Removes a saved state that cannot be used beside the monitor that has its guest. */
export const removeUnusable = ({ because }: UnusableState): Step => ({
  kind: 'storage.remove-saved',
  because: `the saved state cannot be used: ${because}`,
})

/**
 * Decides about an unusable saved state. The guest is complete in the monitor that saved it; a guest that was restored
 * from the unusable state is not trusted.
 */
function ofUnusable(
  record: VmRecord,
  facts: Facts,
  { saved, restores, silentMs }: Seen & { readonly saved: UnusableState },
): Facet {
  const because = `the saved state cannot be used: ${saved.because}`
  if (restores) return [{ kind: 'unit.ensure-stopped', because }]
  // While the monitor is silent, ensurePower plans the wait for its answer.
  return silentMs === undefined ? resumeSteps(record, facts, because) : []
}
