import { areBootImagesReady } from '../core/plan/plan-storage.ts'
import { given } from '../lib/given.ts'
import { limits } from '../config/limits.ts'
import { nextFault } from '../core/retry/retry.ts'
import { failedState } from '../core/status/observed-state.ts'
import type { World } from '../core/world/world.ts'
import type { Compute } from '../core/desired.ts'
import type { FaultCode } from '../core/errors.ts'
import type { Plan, Step, StepKind } from '../core/plan/step.ts'
import type {
  LastWake,
  Observed,
  ObservedState,
  PartialFault,
  VmRecord,
  Progress,
} from '../core/vm/record.ts'
import type { Facts } from '../core/plan/facet.ts'
import type { Failure, ResyncTerms } from '../core/retry/retry.ts'
import type { Log } from '../log/log.ts'
import type { Host } from '../ports/host.ts'
import type { Store } from '../store/store.ts'
import type { VmInputs } from '../core/vm/create.ts'
import type { HostEnd, Places, Silences, StoppedVms } from './process-facts.ts'
import type { MemoryRoom } from './memory-room.ts'
import type { Intent } from './decide.ts'

export type PassContext = {
  readonly store: Store
  readonly host: Host
  readonly log: Log
  /** Counts what passes do. */
  readonly observer?: PassObserver
}

/** Hears what passes do, to count it. It never fails, and nothing depends on it. */
export type PassObserver = {
  readonly passEnded: (ms: number) => void
  readonly planned: (outcome: Plan['outcome']) => void
  /** `step` is the step that failed, or the inspection. */
  readonly passFailed: (step: string, code: FaultCode) => void
  /** `code` is that of the fault with which the step failed. */
  readonly stepEnded: (step: StepKind, ms: number, code?: FaultCode) => void
  readonly woken: (wake: LastWake) => void
}

/** The context that the workers of one reconciler share. */
export type WorkerContext = PassContext & {
  /** The number of VMs on this host. */
  readonly vmCount: () => number
  readonly saves: Places
  /** Restores after a boot or a maintenance of the host. */
  readonly restores: Places
  readonly silences: Silences
  readonly stopped: StoppedVms
  readonly hostEnd: HostEnd
  readonly memory: MemoryRoom
}

/** Returns what decides when a settled VM is looked at again. It draws a random number. */
export const resyncTerms = ({ vmCount, host: { clock } }: WorkerContext): ResyncTerms => ({
  vms: vmCount(),
  random: clock.random(),
  monotonicMs: clock.monotonicMs(),
})

/** Describes why a pass runs. */
export type Cause = {
  readonly reasons: readonly string[]
  /** When (monotonic) desired state or its inputs changed; no back-off holds a change. */
  readonly changedAtMs?: number
  /** Number of acting passes in a row before this one. */
  readonly actingPasses: number
}

/** The part of a pass that its worker gives it. */
export type Turn = {
  readonly cause: Cause
  readonly signal: AbortSignal
  /** Aborts besides if the guest must end now, whatever the running step does. */
  readonly ends: AbortSignal
  /** Runs a step of the pass; a long one lets the passes of other VMs go on meanwhile. Rejects as the step does. */
  readonly during: (step: Step, run: () => Promise<void>) => Promise<void>
}

/** The next action of the worker after a pass. */
export type Next = { readonly kind: 'again' } | Later | { readonly kind: 'gone' }
export type Later = { readonly kind: 'after'; readonly ms: number }

/** One pass over one VM: what it read at its start, and what it found. */
export type Pass = WorkerContext &
  Turn & {
    /**
     * The record to plan with: read once, then changed by what this look notes. While a guest may still end by itself, it
     * desires `running`. Its generation is the one that is published.
     */
    readonly record: VmRecord
    readonly inputs: VmInputs
    readonly intent: Intent
    readonly world: World
    /** How long the monitor has not answered, in milliseconds. */
    readonly silentMs: number
    /** The effect of the maintenance of the host on this VM; undefined: none. */
    readonly drain: Facts['drain']
    /** Everything that this look found wrong. */
    readonly found: readonly PartialFault[]
  }

/** Records a failure with its count, and returns when to try again. */
export function fail(
  pass: Pass,
  failure: Failure,
  also: Partial<Progress> = {},
  state: ObservedState = failedState(pass.record, pass.world),
): Later {
  const { record, host, log, cause } = pass
  // What keeps this VM from starting must not keep others from their memory.
  if (failure.code !== 'wait_overdue') pass.memory.leave(record)
  const nowMs = host.clock.now()
  const fault = nextFault(record, failure, { nowMs, random: host.clock.random() })
  const shown = record.deleting ? 'deleting' : state
  const { waitingFor } = failure
  write(pass, { ...also, observed: { ...observed(pass, shown), ...given({ waitingFor }), fault } })
  const { code, step, attempt, nextAttemptAtMs } = fault
  log.warn({ step, code, attempt, reasons: cause.reasons, error: failure.message }, 'pass failed')
  pass.observer?.passFailed(step, code)
  return { kind: 'after', ms: nextAttemptAtMs - nowMs }
}

/** Returns what is shown besides the state, as seen in this pass. The fault stays at least until the VM is settled. */
export function observed({ record, world, found, host }: Pass, state: ObservedState): Observed {
  const { fault, state: before, sinceMs } = record.observed
  const nowMs = host.clock.now()
  const live = world.unit.known && world.unit.value.kind === 'active' ? world.unit.value : undefined
  const disk = observedDisk(record, world)
  const compute = computeOf(record)
  const began = state !== before
  return {
    state,
    sinceMs: began ? nowMs : sinceMs,
    ...given({
      fault,
      partialFaults: found.length === 0 ? undefined : found,
      compute: live && compute,
      disk,
      rebuild: observedRebuild(record, world),
      bootRevision: observedBoot({ record, world, host }),
      startedAtMs: live?.startedAtMs,
      deviceSinceMs: deviceSinceMs(record, world, nowMs),
    }),
    ...sleepMembers(record, world, began),
    ...exitMembers(record),
  }
}

const exitMembers = ({
  observed: { restarts, lastExit, endedAtPower },
}: VmRecord): Pick<Observed, 'restarts' | 'lastExit' | 'endedAtPower'> =>
  given({ restarts, lastExit, endedAtPower })

type SleepMembers = Pick<
  Observed,
  'lastTrafficAtMs' | 'savedState' | 'lastWake' | 'wakes' | 'lastStop' | 'shortSleeps'
>

/** Returns since when the device is there. While that cannot be seen, it is as before. */
function deviceSinceMs({ observed: { deviceSinceMs: before } }: VmRecord, { tap }: World, nowMs: number) {
  if (!tap.known) return before
  return tap.value.kind === 'present' ? (before ?? nowMs) : undefined
}

function sleepMembers(record: VmRecord, world: World, stateBegan: boolean): SleepMembers {
  const { lastWake, wakes, lastStop, shortSleeps = 0 } = record.observed
  const lastTrafficAtMs = observedTraffic(record, world, stateBegan)
  const savedState = observedSaved(record, world)
  const row = shortSleeps === 0 || endsRow(record) ? undefined : shortSleeps
  return given({ lastTrafficAtMs, savedState, lastWake, wakes, lastStop, shortSleeps: row })
}

/** Returns whether a stop, or a disabled sleep, ends the row of short sleeps. */
const endsRow = ({ desired }: VmRecord): boolean =>
  desired.power === 'stopped' || desired.compute.sleepAfterIdleSeconds === 0

/** Updates the time of the last traffic in steps; otherwise each packet of a busy guest would raise the revision. */
function observedTraffic(record: VmRecord, { traffic }: World, stateBegan: boolean): number | undefined {
  const shown = record.observed.lastTrafficAtMs
  const seen = traffic.known && traffic.value.kind === 'watched' ? traffic.value.lastTrafficAtMs : undefined
  if (seen === undefined || shown === undefined) return seen ?? shown
  return stateBegan || Math.abs(seen - shown) >= limits.lastTrafficStepMs ? seen : shown
}

/** Returns the saved state to show. While it is unusable or cannot be inspected, it is shown as before. */
function observedSaved(record: VmRecord, { saved }: World): Observed['savedState'] {
  if (!saved.known || saved.value.kind === 'unusable') return record.observed.savedState
  if (saved.value.kind !== 'present') return undefined
  const { savedAtMs, sizeMib, memoryMib } = saved.value
  return { savedAtMs, sizeMib, memoryMib }
}

/** Returns what the guest was started with. Only the daemon uses the rest, so a change of it holds at once. */
function computeOf({ launch, desired }: VmRecord): Compute | undefined {
  if (launch === undefined) return undefined
  const { cpuMillicores, memoryMib } = launch.compute
  return { ...desired.compute, cpuMillicores, memoryMib }
}

/**
 * Returns the disk to show. A disk that was seen once stays on record until its VM is deleted. If it is missing, that
 * is a fault and never a reason to make another.
 */
function observedDisk(record: VmRecord, { storage, monitor }: World): Observed['disk'] {
  const seen = storage.known && storage.value.disk.kind === 'present' ? storage.value.disk : undefined
  const sizeMib = seen?.sizeMib ?? record.observed.disk?.sizeMib
  if (sizeMib === undefined) return undefined
  const guest = monitor.known && 'disk' in monitor.value ? { guestSizeMib: monitor.value.disk.sizeMib } : {}
  return { sizeMib, ...guest, ...(seen === undefined ? { unseen: true } : {}) }
}

/** Returns the rebuild that made the disk. One that was seen stays on record. */
function observedRebuild({ observed: { rebuild } }: VmRecord, { storage }: World): number | undefined {
  const seen =
    storage.known && storage.value.disk.kind === 'present' ? storage.value.disk.note?.rebuild : undefined
  return seen ?? rebuild
}

/** Returns the last change of kernel and initrd that is done. */
function observedBoot({
  record,
  world: { storage },
  host,
}: Pick<Pass, 'record' | 'world' | 'host'>): number | undefined {
  const { desired, observed: before, monitor } = record
  const { capabilities } = host.monitors[monitor]
  const isReady = storage.known && areBootImagesReady(record, storage.value, capabilities)
  return isReady ? desired.image.bootRevision : before.bootRevision
}

/** Writes progress. Returns the record as it is now, without a generation that could not be stored. */
export function write(
  { store, record, host }: Pass,
  progress: Omit<Progress, 'nowMs'>,
): VmRecord | undefined {
  return store.vms.recordProgress(record.id, { ...progress, nowMs: host.clock.now() })
}
