/** Writes of a pass to the record of its VM. */
import { limits } from '../config/limits.ts'
import { nextFault } from '../core/retry/retry.ts'
import { failedState } from '../core/status/observed-state.ts'
import { observedAfter } from '../core/status/observed.ts'
import { given } from '../lib/given.ts'
import type { Failure } from '../core/retry/retry.ts'
import type { Fault, Observed, ObservedState, Progress, VmRecord } from '../core/vm/record.ts'
import type { Later, Pass } from './context.ts'

/** The state to show with a failure, if it is not the usual one, and other progress to record with it. */
type WithFailure = Partial<Omit<Progress, 'observed' | 'nowMs'>> & { readonly state?: ObservedState }

/** Records a failure with its count, and returns when to try again. */
export function fail(
  pass: Pass,
  failure: Failure,
  { state = failedState(pass.record, pass.world), ...also }: WithFailure = {},
): Later {
  const { record, host, log, cause } = pass
  // What keeps this VM from starting must not keep others from their memory.
  if (failure.code !== 'wait_overdue') pass.memory.leaveQueue(record)
  const nowMs = host.clock.now()
  const fault = nextFault(record, failure, { nowMs, random: host.clock.random() })
  const shown = record.deleting ? 'deleting' : state
  const waits = given({ waitingFor: failure.waitingFor, memoryQueue: failure.memoryQueue })
  write(pass, { ...also, observed: { ...observed(pass, shown), ...waits, fault } })
  const { code, step, attempt, nextAttemptAtMs } = fault
  // A course that makes the attempts itself is looked at more often than it fails.
  const isOfCourse = failure.nextAttemptAtMs !== undefined
  if (!isOfCourse || !isSameAttempt(record.observed.fault, fault)) {
    log.warn({ step, code, attempt, reasons: cause.reasons, error: failure.message }, 'pass failed')
    pass.observer?.passFailed(step, code)
  }
  // The course pokes the worker at each outcome. While an attempt runs, the recorded time has passed,
  // so it sets no delay.
  return { kind: 'after', ms: isOfCourse ? limits.resyncMs : nextAttemptAtMs - nowMs }
}

const isSameAttempt = (before: Fault | undefined, { code, step, nextAttemptAtMs }: Fault): boolean =>
  before?.code === code && before.step === step && before.nextAttemptAtMs === nextAttemptAtMs

/** Returns what the record shows in this state after the look of this pass. */
export function observed({ record, world, found, host }: Pass, state: ObservedState): Observed {
  const { capabilities } = host.monitors[record.monitor]
  return observedAfter({ record, world, found, capabilities, nowMs: host.clock.now() }, state)
}

/** Writes progress. Returns the record as it is now, without a generation that could not be stored. */
export function write(
  { store, record, host }: Pass,
  progress: Omit<Progress, 'nowMs'>,
): VmRecord | undefined {
  return store.vms.recordProgress(record.id, { ...progress, nowMs: host.clock.now() })
}
