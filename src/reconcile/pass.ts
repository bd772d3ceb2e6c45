import { HostFault } from '../core/errors.ts'
import { backOffLeftMs } from '../core/plan/back-off.ts'
import { plan } from '../core/plan/plan.ts'
import { sleepDueMs, sleepFault, waitsForPlace } from '../core/plan/plan-sleep.ts'
import { waitsForOthers } from '../core/plan/step.ts'
import { nextFault, resyncDelayMs, retryDelayMs } from '../core/retry/retry.ts'
import { findLaunch } from '../core/status/launch.ts'
import { observedState } from '../core/status/observed-state.ts'
import { partialFaults } from '../core/status/partial-faults.ts'
import { watchedOf } from '../core/world/world.ts'
import { unreachable } from '../lib/assert.ts'
import { given } from '../lib/given.ts'
import { errorChain } from '../log/error-chain.ts'
import { addToLogContext } from '../log/log.ts'
import { act } from './act.ts'
import { resyncTerms } from './context.ts'
import { factsOfPass } from './facts.ts'
import { intentOf } from './intent.ts'
import { deleteWhenDue, noteExit, noteLost } from './note-exit.ts'
import { noteLook } from './note-look.ts'
import { observe } from './observe/observe.ts'
import { fail, observed, write } from './progress.ts'
import { forgetTraffic } from './steps/forget-traffic.ts'
import type { VmId } from '../core/ids.ts'
import type { Waiting } from '../core/plan/step.ts'
import type { Failure } from '../core/retry/retry.ts'
import type { Observed, ObservedState, VmRecord, WaitReason } from '../core/vm/record.ts'
import type { World } from '../core/world/world.ts'
import type { Next, Pass, PassTerms, WorkerContext } from './context.ts'

/** Inspects the host, plans, acts step by step, and records the result. Throws StateUnwritable, and bugs. */
export async function runPass(context: WorkerContext, read: VmRecord, terms: PassTerms): Promise<Next> {
  const follows = { operation_id: read.operationId, generation: read.generations.desired }
  return addToLogContext(follows, () => lookPlanAct(context, read, terms))
}

async function lookPlanAct(context: WorkerContext, read: VmRecord, terms: PassTerms): Promise<Next> {
  const { id } = read
  const inputs = context.store.vms.inputs(id)
  const world = await observe(context.host, read)
  const silentMs = context.silences.note(id, world, context.host.clock.monotonicMs())
  // The desired state must be on the disk before the host shows it.
  await context.store.flushed()
  if (terms.signal.aborted) return { kind: 'again' }
  const isHostShuttingDown = context.hostEnd.policy !== undefined
  const { record: noted, drain } = noteLook(context, read, { world, isHostShuttingDown })
  const record = context.memory.lendAfterFailedWake(noted, world)
  const pass: Pass = {
    ...context,
    ...terms,
    record,
    inputs,
    intent: intentOf(context.host, record, inputs),
    world,
    silentMs,
    drain,
    found: partialFaults(record, world, {
      silentMs,
      capabilities: context.host.monitors[record.monitor].capabilities,
    }),
  }
  logNewFaults(pass)
  // A host that no longer lends memory lets a VM start without taking it back.
  if (record.memoryLent === true && hasUnit(world)) context.memory.endLoan(id)
  // A guest that systemd ends while the host shuts down has not exited.
  const next = (isHostShuttingDown ? undefined : noteLaunch(pass)) ?? (await planAndAct(pass))
  return untilGraceEnds(context.graces.leftMs(record), next)
}

/** Returns the next action, which no back-off delays beyond the end of a grace. */
function untilGraceEnds(leftMs: number | undefined, next: Next): Next {
  if (leftMs === undefined || next.kind !== 'after') return next
  return { kind: 'after', ms: Math.min(next.ms, leftMs) }
}

const hasUnit = ({ unit }: World): boolean =>
  unit.known && (unit.value.kind === 'active' || unit.value.kind === 'activating')

/** Logs new faults. The plan that follows may repair a partial fault at once, so the log must keep it. */
function logNewFaults({ record, found, log }: Pass): void {
  const known = new Set((record.observed.partialFaults ?? []).map(({ message }) => message))
  for (const { step, code, message } of found) {
    if (!known.has(message)) log.warn({ step, code, error: message }, 'fault found by an inspection')
  }
}

/** Records a start or the end of a unit that the record missed, or an end that was not requested. */
function noteLaunch(pass: Pass): Next | undefined {
  const { record, world, host } = pass
  const finding = findLaunch(record, world, { nowMs: host.clock.now(), bootId: host.bootId })
  switch (finding.kind) {
    case 'as-recorded':
      return undefined
    case 'adopted':
      write(pass, { observed: record.observed, launch: finding.launch })
      return { kind: 'again' }
    case 'asleep':
    case 'ended-quietly':
      write(pass, { observed: record.observed, launch: null })
      return { kind: 'again' }
    case 'lost':
      return noteLost(pass, finding)
    case 'exited':
      return noteExit(pass, finding)
    default:
      return unreachable(finding)
  }
}

async function planAndAct(pass: Pass): Promise<Next> {
  const { record, world, memory } = pass
  const decided = plan(record, world, factsOfPass(pass))
  pass.observer?.planned(decided.outcome)
  const state = observedState(record, world, decided)
  switch (decided.outcome) {
    case 'settled':
      return settle(pass, state)
    case 'wait':
      if (decided.for === 'memory') memory.joinQueue(record)
      else memory.leaveQueue(record)
      return wait(pass, decided, state)
    case 'blocked':
      memory.leaveQueue(record)
      return fail(pass, { ...decided, message: decided.because }, { state })
    case 'act':
      return act(pass, decided.steps, state)
    default:
      return unreachable(decided)
  }
}

/** Shows what the pass waits for. Past the deadline the wait becomes a fault, and continues. */
function wait(pass: Pass, waiting: Waiting, state: ObservedState): Next {
  if (waiting.for === 'a turn to wake') pass.restores.waitForPlace(pass.record.id)
  const shown = observed(pass, state)
  const { waits, record, host } = pass
  const waitedMs = waiting.waitedMs ?? waits.note(record.id, shown.sinceMs, host.clock.monotonicMs())
  if (waiting.deadlineMs !== undefined && waitedMs >= waiting.deadlineMs)
    return overdue(pass, waiting, { state, waitedMs })
  const { fault: _past, ...withoutFault } = shown
  const staysFailed = waiting.for === 'the host to start again' && state === 'failed'
  const seen = waitsForOthers(waiting) && !staysFailed ? withoutFault : shown
  write(pass, { observed: { ...seen, ...waitsOf(pass, waiting) } })
  return { kind: 'after', ms: waiting.recheckMs }
}

/** Returns what the record shows of a wait. */
function waitsOf(
  { store, record, host }: Pass,
  { for: waitingFor, queue }: Waiting,
): Pick<Observed, 'waitingFor' | 'memoryQueue'> {
  const sinceMs = store.vms.get(record.id)?.memoryWantedAtMs ?? host.clock.now()
  return { waitingFor, ...given({ memoryQueue: queue && { ...queue, sinceMs } }) }
}

/** Counts and logs an overdue wait once in each back-off. */
function overdue(
  pass: Pass,
  waiting: Waiting,
  { state, waitedMs }: { readonly state: ObservedState; readonly waitedMs: number },
): Next {
  const step = INSPECTION_OF[waiting.for] ?? 'unit.inspect'
  const waits = waitsOf(pass, waiting)
  const { fault } = pass.record.observed
  const isKnown = fault?.step === step && fault.code === 'wait_overdue'
  const leftMs = isKnown ? backOffLeftMs(fault, pass.host.clock.now()) : 0
  if (leftMs > 0) {
    write(pass, { observed: { ...observed(pass, state), ...waits } })
    return lookAgain(waiting, leftMs)
  }
  const message = `${state} for ${Math.round(waitedMs / 1000)} s, waiting for ${waiting.for}`
  const failure = { step, code: 'wait_overdue', retry: 'backoff', message, ...waits } as const
  return lookAgain(waiting, fail(pass, failure, { state }).ms)
}

/**
 * Returns when to look at an overdue wait again. A place in a queue is looked at as often as before, because no event
 * says that the host has more to give.
 */
const lookAgain = ({ queue, recheckMs }: Waiting, backOffMs: number): Next => ({
  kind: 'after',
  ms: queue === undefined ? backOffMs : Math.min(backOffMs, recheckMs),
})

/** The inspections that show the end of a wait; of the unit if none is named. */
const INSPECTION_OF: { readonly [R in WaitReason]?: string } = {
  'the monitor to answer': 'monitor.inspect',
  memory: 'memory.inspect',
}

function settle(pass: Pass, state: ObservedState): Next | Promise<Next> {
  const { record, log, cause, memory } = pass
  memory.leaveQueue(record)
  if (record.deleting) return endDeletion(pass)
  const { fault: _mended, ...seen } = observed(pass, state)
  const kept = state === 'running' ? sleepFault(record) : undefined
  const rest = { ...seen, ...(kept === undefined ? {} : { fault: kept }) }
  const isReached = record.generations.observed < record.generations.desired
  const written = write(pass, { observed: rest, observedGeneration: record.generations.desired })
  if ((written?.generations.observed ?? 0) < record.generations.desired)
    return { kind: 'after', ms: retryDelayMs('soon', 1, pass.host.clock.random()) }
  memory.lend(record, state)
  if (isReached) log.info({ reasons: cause.reasons, state }, 'reached the desired generation')
  const deletionMs = written === undefined ? undefined : deleteWhenDue(pass, written)
  if (deletionMs === 0) return { kind: 'again' }
  return { kind: 'after', ms: Math.min(nextLookMs(pass, rest), deletionMs ?? Infinity) }
}

/** Forgets a VM of which nothing is left on the host. */
async function endDeletion(pass: Pass): Promise<Next> {
  const { record, world, store, host, log, cause } = pass
  // Its device may be gone already, and then no look shows what is left of its traffic. Traffic that is still watched
  // belongs to another VM, which has that device now.
  const isOfAnother = watchedOf(world) !== undefined
  if (record.desired.network !== undefined && !isOfAnother) await forgetTraffic(pass)
  // No step removed a unit that ended by itself.
  if (world.unit.known && world.unit.value.kind === 'absent') host.units.forget(record.id)
  store.vms.forget(record.id, host.clock.now())
  log.info({ reasons: cause.reasons }, 'deleted')
  return { kind: 'gone' }
}

/**
 * Returns when to look at a settled VM again: when it may be due to sleep, when its turn to be saved comes, and in any
 * case from time to time.
 */
function nextLookMs(pass: Pass, shown: Observed): number {
  const { record, world, saves } = pass
  const { desired } = record.generations
  const settled = { ...record, observed: shown, generations: { desired, observed: desired } }
  const facts = factsOfPass(pass)
  const dueMs = sleepDueMs(settled, world, facts)
  if (waitsForPlace(settled, world, facts)) saves.waitForPlace(record.id)
  const resyncMs = resyncDelayMs(resyncTerms(pass))
  return Math.ceil(Math.min(resyncMs, dueMs ?? resyncMs))
}

/**
 * Handles an error that ended a pass early: a record that cannot be written, or a bug. The error is logged and shown,
 * that VM waits for a back-off, and the other VMs continue. This needs no write to the disk.
 */
export function recordFailedPass(context: WorkerContext, id: VmId, error: unknown): Next {
  const { store, host, log, observer, memory } = context
  const record = store.vms.get(id)
  const fields = record === undefined ? {} : { operation_id: record.operationId }
  const message = errorChain(error)
  const isFault = error instanceof HostFault
  if (isFault) log.warn({ ...fields, code: error.code, error: message }, 'pass failed')
  else log.error({ ...fields, error }, 'pass failed: internal error')
  if (record === undefined) return { kind: 'gone' }
  const nowMs = host.clock.now()
  const failure: Failure = {
    step: 'pass',
    ...(isFault ? { code: error.code, retry: error.retry } : { code: 'bug', retry: 'on-change' }),
    message,
  }
  observer?.passFailed(failure.step, failure.code)
  memory.leaveQueue(record)
  const fault = nextFault(record, failure, { nowMs, random: host.clock.random() })
  const shown = isFault ? record.observed : { ...record.observed, state: 'failed' as const, sinceMs: nowMs }
  store.vms.recordProgress(id, { observed: { ...shown, fault }, nowMs })
  return { kind: 'after', ms: fault.nextAttemptAtMs - nowMs }
}
