import { limits } from '../../config/limits.ts'
import { unreachable } from '../../lib/assert.ts'
import { mayLend } from '../capacity/ledger.ts'
import { idleTimeoutMs, isFlapping } from '../sleep/idle-timeout.ts'
import { isLeaving } from '../vm/leaving.ts'
import { hasBegun } from '../vm/record.ts'
import { areHeld } from '../world/network-state.ts'
import { isSaved } from '../world/saved-state.ts'
import { isUnitActive, isLiveMonitor, watchedOf } from '../world/world.ts'
import { when } from './facet.ts'
import { waitForMonitor } from './plan-waits.ts'
import { wakeReasonNow } from './plan-wake.ts'
import type { Fault, VmRecord } from '../vm/record.ts'
import type { WatchedTraffic } from '../world/network-state.ts'
import type { World } from '../world/world.ts'
import type { Facet, Facts } from './facet.ts'
import type { Step, StepKind } from './step.ts'

/** Watches the tap of every VM, so that the daemon knows how long the guest is idle. */
export function ensureWatched(record: VmRecord, world: World, { tap }: Facts): Facet {
  if (tap === undefined || !needsTraffic(record, world)) return []
  return when('traffic', world.traffic, ({ kind }) =>
    kind === 'watched'
      ? []
      : [{ kind: 'traffic.ensure-watched', because: `no program counts the traffic of ${tap.device}` }],
  )
}

/**
 * Holds frames for a guest that is not there. If the guest is wanted, its wake does not wait until the traffic state is
 * known.
 */
export function ensureHeld(record: VmRecord, world: World, facts: Facts): Facet {
  if (!world.traffic.known && wakeReasonNow(record, world, facts) !== undefined) return []
  return holdFrames(world, facts, 'the guest sleeps, so its frames must be held')
}

/** Holds the frames that come for the guest from now on. */
export const holdFrames = ({ traffic }: World, { tap }: Facts, because: string): Facet =>
  tap === undefined
    ? []
    : when('traffic', traffic, (seen) => (areHeld(seen) ? [] : [{ kind: 'traffic.ensure-held', because }]))

/** Saves a guest whatever its traffic. */
export const saveAnyway = (
  { monitor, traffic }: Pick<World, 'monitor' | 'traffic'>,
  silentMs: number,
  because: string,
): Facet =>
  when('monitor', monitor, ({ kind }) => {
    switch (kind) {
      case 'running':
      case 'paused': {
        const packets = watchedOf({ traffic })?.packets ?? 0
        return [{ kind: 'monitor.ensure-saved', packets, anyway: true, because }]
      }
      case 'silent':
        return waitForMonitor(silentMs)
      case 'restoring':
      case 'stalled':
      case 'broken':
        return []
      default:
        return unreachable(kind)
    }
  })

/** Lets frames flow only to a guest that is there, never to a monitor that is about to end with its guest saved. */
export function ensureFlowing(record: VmRecord, world: World, { tap }: Facts): Facet {
  const { monitor, traffic } = world
  if (tap === undefined || !needsTraffic(record, world)) return []
  const lives = monitor.known && isLiveMonitor(monitor.value)
  const because = 'the guest is not saved, and its frames are held'
  return when('traffic', traffic, (seen) =>
    lives && areHeld(seen) ? [{ kind: 'traffic.ensure-flowing', deliver: true, because }] : [],
  )
}

/**
 * Returns whether the plan depends on knowing the VM's traffic. A VM that never sleeps runs even if its traffic is
 * unknown, as on a host without BPF; a partial fault reports that. A VM that was asleep may have frames waiting for it.
 */
const needsTraffic = (record: VmRecord, { traffic }: World): boolean =>
  traffic.known || idleTimeoutMs(record) !== undefined || hasBegun(record.wake)

/** Drops the frames held for a guest that has ended: they are not meant for the next guest. */
export function dropFrames({ traffic }: World): Facet {
  if (!traffic.known || !areHeld(traffic.value)) return []
  const because = 'the guest that these frames were held for has ended'
  return [{ kind: 'traffic.ensure-flowing', deliver: false, because }]
}

/**
 * Removes the rest of a save that did not finish. Nothing starts beside such a rest, or while the pool cannot be
 * inspected.
 */
export function removeUnfinished({ saved }: World): Facet {
  return when('storage', saved, ({ kind }) => (kind === 'unfinished' ? [REMOVE_UNFINISHED] : []))
}

const REMOVE_UNFINISHED: Step = {
  kind: 'storage.remove-saved',
  because: 'a save was interrupted',
}

/** Removes what a running guest has left in the pool. If the pool cannot be inspected, the removal waits. */
export function removeRemains({ saved, monitor }: World): Facet {
  if (!saved.known || saved.value.kind === 'absent') return []
  if (saved.value.kind === 'unfinished') return [REMOVE_UNFINISHED]
  // For a guest that does not run, fallAsleepOrResume has decided before, strictly in order.
  if (!monitor.known || monitor.value.kind !== 'running') return []
  return [{ kind: 'storage.remove-saved', because: 'the guest runs, so its saved state is out of date' }]
}

/** Saves a guest that has been idle for long enough. Evaluated only if nothing else needs to be done. */
export function sleepWhenIdle(record: VmRecord, world: World, facts: Facts): Facet {
  const idle = idleness(record, world, facts)
  if (idle === undefined || idle.leftMs > 0 || !facts.maySave) return []
  const because = `no traffic for ${(idle.idleMs / 1000).toFixed(1)} s`
  return [
    { kind: 'traffic.ensure-held', because },
    { kind: 'monitor.ensure-saved', packets: idle.traffic.packets, anyway: false, because },
  ]
}

/** Returns the milliseconds until a settled VM may be due to sleep; undefined if time alone does not make it due. */
export function sleepDueMs(record: VmRecord, world: World, facts: Facts): number | undefined {
  const idle = idleness(record, world, facts)
  if (idle === undefined || waitsForPlace(record, world, facts)) return undefined
  return Math.max(limits.sleepRecheckMs, idle.leftMs)
}

/** Returns whether the VM is due to sleep and waits only for other saves to finish. */
export function waitsForPlace(record: VmRecord, world: World, facts: Facts): boolean {
  const idle = idleness(record, world, facts)
  return idle !== undefined && idle.leftMs <= 0 && !facts.maySave
}

type Idleness = { readonly traffic: WatchedTraffic; readonly idleMs: number; readonly leftMs: number }

/** Returns how long the guest has been idle, and how long until it sleeps because of that. */
function idleness(record: VmRecord, world: World, facts: Facts): Idleness | undefined {
  const traffic = maySleep(record, world, facts)
  const askedMs = idleTimeoutMs(record)
  if (traffic === undefined || askedMs === undefined) return undefined
  // A VM that lends nothing, or wakes again at once, makes no room.
  const makesRoom = facts.memoryIsShort && mayLend(record.desired) && !isFlapping(record)
  const timeoutMs = makesRoom ? askedMs * limits.earlySleepShare : askedMs
  // A guest cannot be idle for longer than it runs. If the clock was set back since the start, the run time is unknown.
  const runsMs = facts.nowMs - record.observed.sinceMs
  const idleMs = runsMs < 0 ? traffic.idleMs : Math.min(traffic.idleMs, runsMs)
  return {
    traffic,
    idleMs,
    leftMs: Math.max(timeoutMs - idleMs, wokenLeftMs(record, facts), keptLeftMs(record, facts)),
  }
}

/**
 * Returns how much longer a woken guest must stay awake. A wake time in the future means the clock was set back; it is
 * ignored.
 */
function wokenLeftMs({ observed: { lastWake } }: VmRecord, { nowMs }: Facts): number {
  if (lastWake === undefined) return 0
  const awakeMs = nowMs - (lastWake.atMs + lastWake.durationMs)
  return awakeMs < 0 ? 0 : limits.awakeMsMin - awakeMs
}

/** Returns how much longer the controller wants the guest awake; not above 0 if it does not ask for that. */
const keptLeftMs = ({ keepAwakeUntilMs = 0 }: VmRecord, { nowMs }: Facts): number => keepAwakeUntilMs - nowMs

/** Steps that put a guest to sleep. If one of them fails, the guest keeps running and the daemon tries again. */
const FALLING_ASLEEP: ReadonlySet<string> = new Set<StepKind>(['traffic.ensure-held', 'monitor.ensure-saved'])

/**
 * Returns the fault that keeps a VM from falling asleep although it runs as desired. The fault outlives packets that
 * keep the guest awake meanwhile; otherwise each packet would reset the back-off. It ends when a save succeeds, desired
 * state changes, or the VM must no longer sleep. A monitor that cannot save is a fault only of a drain: a sleep does
 * not try it.
 */
export function sleepFault(record: VmRecord): Fault | undefined {
  const { observed, generations, desired } = record
  const { fault } = observed
  if (fault === undefined || !FALLING_ASLEEP.has(fault.step) || fault.code === 'sleep_unsupported')
    return undefined
  const isAsked = fault.generation === generations.desired && desired.power === 'running'
  return isAsked && idleTimeoutMs(record) !== undefined ? fault : undefined
}

/**
 * Returns the traffic of a VM that may sleep. Its state must be fully known, settled as desired, and without a fault
 * except one of its last try to sleep.
 */
function maySleep(record: VmRecord, world: World, { capabilities, tap }: Facts): WatchedTraffic | undefined {
  const { generations, observed, desired, wake } = record
  const { monitor, console, saved, storage, firewall } = world
  if (!capabilities.save || tap === undefined || wake !== undefined || isLeaving(record)) return undefined
  if (desired.power !== 'running' || observed.state !== 'running') return undefined
  if (generations.observed !== generations.desired) return undefined
  if (observed.fault !== undefined && !FALLING_ASLEEP.has(observed.fault.step)) return undefined
  if (!isUnitActive(world) || !storage.known || !firewall.known) return undefined
  if (!monitor.known || monitor.value.kind !== 'running') return undefined
  if (!console.known || console.value.kind !== 'stored') return undefined
  if (!saved.known || isSaved(saved.value)) return undefined
  const traffic = watchedOf(world)
  return traffic !== undefined && !areHeld(traffic) ? traffic : undefined
}
