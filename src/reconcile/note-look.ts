/** Notes of a look: what it shows of stops, graces and wakes is on record before anything is planned. */
import { drainFact } from '../core/maintenance/drain.ts'
import { isComing } from '../core/migration/arrival.ts'
import { isStopCarriedOut } from '../core/plan/plan-power.ts'
import { withGrace } from '../core/status/grace.ts'
import { wakeThatBegins, wakeThatEnds } from '../core/status/wake-progress.ts'
import { hasBegun } from '../core/vm/record.ts'
import { isLiveMonitor } from '../core/world/world.ts'
import { given } from '../lib/given.ts'
import type { Facts } from '../core/plan/facet.ts'
import type { LastWake, Observed, VmRecord } from '../core/vm/record.ts'
import type { World } from '../core/world/world.ts'
import type { PassContext, WorkerContext } from './context.ts'

type NoteContext = PassContext & Pick<WorkerContext, 'graces'>

/** The record to plan with, and the effect of the host's maintenance on it. */
type Noted = { readonly record: VmRecord; readonly drain: Facts['drain'] }

/** Notes what a look shows, and returns the record to plan with. While the host shuts down, no guest is woken. */
export function noteLook(
  context: NoteContext,
  read: VmRecord,
  { world, isHostShuttingDown }: { readonly world: World; readonly isHostShuttingDown: boolean },
): Noted {
  // Only now does the guest get what was typed while it slept.
  if (!mayBeRestoring(world)) context.host.consoles.passInput(read.id)
  const unsaved = noteUnsaved(context, read, world)
  const stopped = noteStop(context, noteGrace(context, unsaved, world), world)
  const drain = drainFact(context.store.maintenance.get(), stopped)
  return { record: isHostShuttingDown ? stopped : noteWake(context, stopped, world, drain), drain }
}

/** Returns whether a monitor may still have to load the guest. One that does not answer runs it if nothing is saved. */
const mayBeRestoring = ({ monitor, saved }: World): boolean =>
  !(monitor.known && isLiveMonitor(monitor.value)) && !(saved.known && saved.value.kind === 'absent')

/** Returns the record without the note that something may be saved, if this look finds nothing saved. */
function noteUnsaved({ store, host }: PassContext, record: VmRecord, { saved }: World): VmRecord {
  const { mayBeSaved, ...rest } = record
  if (mayBeSaved !== true || !saved.known || saved.value.kind !== 'absent') return record
  // Its memory may come at any moment.
  if (record.arrival !== undefined && isComing(record.arrival)) return record
  store.vms.recordProgress(record.id, {
    observed: record.observed,
    mayBeSaved: false,
    nowMs: host.clock.now(),
  })
  return rest
}

/** Returns the record to plan with while a guest may end by itself, and notes the end of that time. */
function noteGrace({ store, host, log, graces }: NoteContext, read: VmRecord, world: World): VmRecord {
  const nowMs = host.clock.now()
  const { record, ended } = withGrace(graces.timed(read, nowMs), world, { nowMs, bootId: host.bootId })
  if (ended === undefined) return record
  const shown = { ...record.observed, lastStop: ended }
  store.vms.recordProgress(record.id, { observed: shown, graceOver: ended.generation, nowMs })
  log.info({ how: ended.kind, stop_generation: ended.generation }, 'grace of the stop ended')
  return { ...record, observed: shown }
}

/**
 * Returns the record with the stop marked as carried out, if this look finds nothing left of the guest. The next start
 * then no longer has to finish the stop. If the host loses power before this is flushed, it restarts without a guest,
 * and a look finds that again.
 */
function noteStop({ store, host, log }: PassContext, record: VmRecord, world: World): VmRecord {
  if (!isStopCarriedOut(record, world)) return record
  const { launch: _ended, wake: _over, ...rest } = record
  const { accepted } = record.stops
  const nowMs = host.clock.now()
  const shown = withLastStop(record, nowMs)
  store.vms.recordProgress(record.id, {
    observed: shown,
    stopCarriedOut: accepted,
    launch: null,
    wake: null,
    exitStreak: 0,
    nowMs,
  })
  log.info({ stop_generation: accepted, ...given({ how: shown.lastStop?.kind }) }, 'stopped')
  return { ...rest, observed: shown, exitStreak: 0, stops: { accepted, carriedOut: accepted } }
}

/** Returns what is shown after a stop. A creation as stopped ends no guest. */
function withLastStop({ observed: shown, stops: { accepted } }: VmRecord, nowMs: number): Observed {
  if (accepted === 1 || shown.lastStop?.generation === accepted) return shown
  return { ...shown, lastStop: { atMs: nowMs, kind: 'hard', generation: accepted } }
}

/**
 * Returns the record with a wake that this look begins or ends. On a drained host none begins. The wake is on record
 * before any step runs.
 */
function noteWake(context: PassContext, record: VmRecord, world: World, drain: Facts['drain']): VmRecord {
  // The request for the time after the maintenance is not over because the guest still runs.
  if (drain === 'save') return record
  const end = wakeThatEnds(record, world, context.host.clock.now())
  if (end !== undefined) return noteWakeEnd(context, record, end)
  return drain === undefined ? noteWakeBegin(context, record, world) : record
}

function noteWakeEnd(
  { store, host, log, observer }: PassContext,
  { wake: _over, ...rest }: VmRecord,
  end: NonNullable<ReturnType<typeof wakeThatEnds>>,
): VmRecord {
  const shown = { ...rest.observed, ...end }
  store.vms.recordProgress(rest.id, { observed: shown, wake: null, nowMs: host.clock.now() })
  if (end.lastWake !== undefined) {
    log.info({ ...wakeFields(end.lastWake) }, 'woken')
    observer?.woken(end.lastWake)
  }
  return { ...rest, observed: shown }
}

function noteWakeBegin({ store, host, log }: PassContext, record: VmRecord, world: World): VmRecord {
  const nowMs = host.clock.now()
  // Reads the record as it is now: a request for the guest during this look came first.
  const asked = record.wake ?? store.vms.wantedOf(record.id)?.wake
  const known = asked === undefined ? record : { ...record, wake: asked }
  const wake = wakeThatBegins(known, world, nowMs)
  if (wake === undefined) return record
  store.vms.recordProgress(record.id, { observed: record.observed, wake, nowMs })
  if (!hasBegun(asked)) {
    log.info({ reason: wake.reason, waited_ms: nowMs - wake.atMs }, 'waking')
  }
  return { ...record, wake }
}

const wakeFields = ({ reason, durationMs, heldPackets, droppedPackets }: LastWake): object => ({
  reason,
  duration_ms: durationMs,
  held_packets: heldPackets,
  dropped_packets: droppedPackets,
})
