import { limits } from '../../config/limits.ts'
import { idleTimeoutMs } from '../idle/idle-timeout.ts'
import { areHeld } from '../idle/traffic-state.ts'
import { when } from './facet.ts'
import { isLiveMonitor } from './world.ts'
import { isSaved, wakeReason } from './plan-wake.ts'
import type { WatchedTraffic } from '../idle/traffic-state.ts'
import type { Fault, VmRecord } from '../vm/record.ts'
import type { Facet } from './facet.ts'
import type { Facts } from './facts.ts'
import type { Step, StepKind } from './step.ts'
import type { World } from './world.ts'

/** The program is on the tap of every VM, so that it is known how long its guest is idle. */
export function ensureWatched(record: VmRecord, world: World, { tap }: Facts): Facet {
  if (tap === undefined || !needsTraffic(record, world)) return []
  return when('traffic', world.traffic, ({ kind }) =>
    kind === 'watched'
      ? []
      : [{ kind: 'traffic.ensure-watched', because: `no program counts the traffic of ${tap.device}` }],
  )
}

/**
 * What comes for a guest that is not there is held for it. A guest that is wanted does not wait until it is known whether
 * that is so.
 */
export function ensureHeld(record: VmRecord, world: World, { tap, capabilities }: Facts): Facet {
  if (tap === undefined) return []
  if (!world.traffic.known && wakeReason(record, world, capabilities) !== undefined) return []
  return when('traffic', world.traffic, (traffic) =>
    areHeld(traffic)
      ? []
      : [{ kind: 'traffic.ensure-held', because: 'the guest sleeps, and what comes for it is kept' }],
  )
}

/** Frames go to a guest that is there, and nowhere else: not to a monitor that is about to end with its guest saved. */
export function ensureFlowing(record: VmRecord, world: World, { tap }: Facts): Facet {
  const { monitor, traffic } = world
  if (tap === undefined || !needsTraffic(record, world)) return []
  const lives = monitor.known && isLiveMonitor(monitor.value)
  const because = 'the guest lives, and frames are held for it'
  return when('traffic', traffic, (seen) =>
    lives && areHeld(seen) ? [{ kind: 'traffic.ensure-flowing', deliver: true, because }] : [],
  )
}

/**
 * A VM that never sleeps runs as well where nobody knows its traffic, as on a host without BPF; the partial fault tells. One
 * that was away may have frames that wait for it.
 */
const needsTraffic = (record: VmRecord, { traffic }: World): boolean =>
  traffic.known || idleTimeoutMs(record) !== undefined || record.wake?.savedAtMs !== undefined

/** What was held for a guest that is over is not for the next. */
export function dropFrames({ traffic }: World): Facet {
  if (!traffic.known || !areHeld(traffic.value)) return []
  const because = 'the guest is over that frames are held for'
  return [{ kind: 'traffic.ensure-flowing', deliver: false, because }]
}

/** Nothing is started beside the rest of a save, or beside what nobody could look at. */
export function removeUnfinished({ saved }: World): Facet {
  return when('storage', saved, ({ kind }) => (kind === 'unfinished' ? [REMOVE_UNFINISHED] : []))
}

const REMOVE_UNFINISHED: Step = {
  kind: 'storage.remove-saved',
  because: 'a save did not come to its end',
}

/** A guest that is there leaves nothing in the pool; what may be there out of sight waits. */
export function removeRemains({ saved, monitor }: World): Facet {
  if (!saved.known || saved.value.kind === 'absent') return []
  if (saved.value.kind === 'unfinished') return [REMOVE_UNFINISHED]
  // Of a guest that stands still it is decided before, strictly in order.
  if (!monitor.known || monitor.value.kind !== 'running') return []
  return [{ kind: 'storage.remove-saved', because: 'the guest runs, and what was saved is of the past' }]
}

/** Saves a guest that was idle for long enough. Asked only where nothing else is to be done. */
export function sleepWhenIdle(record: VmRecord, world: World, facts: Facts): Facet {
  const idle = idleness(record, world, facts)
  if (idle === undefined || idle.leftMs > 0 || !facts.maySave) return []
  const because = `no traffic for ${(idle.idleMs / 1000).toFixed(1)} s`
  return [
    { kind: 'traffic.ensure-held', because },
    { kind: 'monitor.ensure-saved', packets: idle.traffic.packets, because },
  ]
}

/** In how many milliseconds a settled VM may be due to sleep; undefined where it is not by the mere passing of time. */
export function sleepDueMs(record: VmRecord, world: World, facts: Facts): number | undefined {
  const idle = idleness(record, world, facts)
  if (idle === undefined || waitsForPlace(record, world, facts)) return undefined
  return Math.max(limits.sleepRecheckMs, idle.leftMs)
}

/** Whether only those that are being saved now keep the VM from it. */
export function waitsForPlace(record: VmRecord, world: World, facts: Facts): boolean {
  const idle = idleness(record, world, facts)
  return idle !== undefined && idle.leftMs <= 0 && !facts.maySave
}

type Idleness = { readonly traffic: WatchedTraffic; readonly idleMs: number; readonly leftMs: number }

/** How long the guest is idle, and how long until it sleeps for that. */
function idleness(record: VmRecord, world: World, facts: Facts): Idleness | undefined {
  const traffic = maySleep(record, world, facts)
  const timeoutMs = idleTimeoutMs(record)
  if (traffic === undefined || timeoutMs === undefined) return undefined
  // It is idle since it runs at the longest. A clock that was set back since then tells nothing.
  const runsMs = facts.nowMs - record.observed.sinceMs
  const idleMs = runsMs < 0 ? traffic.idleMs : Math.min(traffic.idleMs, runsMs)
  return { traffic, idleMs, leftMs: Math.max(timeoutMs - idleMs, awakeLeftMs(record, facts)) }
}

/** How much longer a guest that was woken stays up in any case; one whose wake is to come, by a clock that was set, has no claim. */
function awakeLeftMs({ observed: { lastWake } }: VmRecord, { nowMs }: Facts): number {
  if (lastWake === undefined) return 0
  const awakeMs = nowMs - (lastWake.atMs + lastWake.durationMs)
  return awakeMs < 0 ? 0 : limits.awakeMsMin - awakeMs
}

/** The steps of falling asleep: where one fails the guest runs on, and it is tried again. */
const FALLING_ASLEEP: ReadonlySet<string> = new Set<StepKind>(['traffic.ensure-held', 'monitor.ensure-saved'])

/**
 * What still keeps a VM from falling asleep although it runs as desired. It outlives the packets that keep the guest awake
 * meanwhile, or each of them would take back the back-off: until a save succeeds, desired changes, or it shall not sleep.
 */
export function sleepFault(record: VmRecord): Fault | undefined {
  const { observed, generations, desired } = record
  const { fault } = observed
  if (fault === undefined || !FALLING_ASLEEP.has(fault.step)) return undefined
  const isAsked = fault.generation === generations.desired && desired.power === 'running'
  return isAsked && idleTimeoutMs(record) !== undefined ? fault : undefined
}

/** A VM sleeps only from a state that is seen in full, wanted as it is, and without a fault but that of its last try. */
function maySleep(record: VmRecord, world: World, { capabilities, tap }: Facts): WatchedTraffic | undefined {
  const { generations, observed, desired, wake } = record
  const { unit, monitor, console, saved, storage, firewall, traffic } = world
  if (!capabilities.save || tap === undefined || wake !== undefined) return undefined
  if (desired.power !== 'running' || observed.state !== 'running') return undefined
  if (generations.observed !== generations.desired) return undefined
  if (observed.fault !== undefined && !FALLING_ASLEEP.has(observed.fault.step)) return undefined
  if (!unit.known || unit.value.kind !== 'active' || !storage.known || !firewall.known) return undefined
  if (!monitor.known || monitor.value.kind !== 'running') return undefined
  if (!console.known || console.value.kind !== 'stored') return undefined
  if (!saved.known || isSaved(saved.value) || !traffic.known) return undefined
  return traffic.value.kind === 'watched' && !areHeld(traffic.value) ? traffic.value : undefined
}
