import { limits } from '../config/limits.ts'
import { findLaunch } from '../core/vm/launch.ts'
import { observedState } from '../core/vm/observed-state.ts'
import { partialFaults } from '../core/vm/partial-faults.ts'
import { nextFault } from '../core/vm/retry.ts'
import { unreachable } from '../lib/assert.ts'
import { errorChain } from '../log/error-chain.ts'
import { act } from './act.ts'
import { decide } from './decide.ts'
import { intentOf } from './intent.ts'
import { observe } from './observe/observe.ts'
import { fail, observed, write } from './progress.ts'
import type { Waiting } from '../core/plan/step.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { ObservedState } from '../core/vm/record.ts'
import type { Failure } from '../core/vm/retry.ts'
import type { Next, Pass, PassContext, Wake } from './progress.ts'

/** Looks, plans, acts step by step, and writes down what it found. Throws only bugs. */
export async function runPass(
  context: PassContext,
  id: VmId,
  wake: Wake,
  signal: AbortSignal,
): Promise<Next> {
  const record = context.store.vms.get(id)
  if (record === undefined) return { kind: 'gone' }
  const inputs = context.store.vms.inputs(id)
  const world = await observe(context.host, record)
  // Before anything is done for it: what is desired must not be lost once the host shows it.
  await context.store.flushed()
  if (signal.aborted) return { kind: 'again' }
  const log = context.log.child({
    vm_id: id,
    operation_id: record.operationId,
    generation: record.generations.desired,
  })
  const pass: Pass = {
    ...context,
    log,
    wake,
    signal,
    record,
    inputs,
    intent: intentOf(context.host, record, inputs),
    world,
  }
  logNewFaults(pass)
  return noteLaunch(pass) ?? (await pursue(pass))
}

/** A partial fault may be mended by the very plan it leads to; the log keeps it. */
function logNewFaults({ record, world, host, log }: Pass): void {
  const known = new Set((record.observed.partialFaults ?? []).map(({ message }) => message))
  for (const { step, code, message } of partialFaults(record, world, host.clock.now())) {
    if (!known.has(message)) log.warn({ step, code, error: message }, 'an inspection found a fault')
  }
}

/** Takes note of a start the record missed, or of an end that nobody asked for. */
function noteLaunch(pass: Pass): Next | undefined {
  const { record, world, host } = pass
  const finding = findLaunch(record, world, { nowMs: host.clock.now(), bootId: host.bootId })
  switch (finding.kind) {
    case 'as-recorded':
      return undefined
    case 'adopted':
      write(pass, { observed: record.observed, launch: finding.launch })
      return { kind: 'again' }
    case 'exited': {
      const exitStreak = finding.ranMs < limits.stableAfterMs ? record.exitStreak + 1 : 1
      const failure: Failure = {
        step: 'unit.run',
        code: 'vm_exited',
        retry: 'backoff',
        message: `${finding.because} (it ran ${(finding.ranMs / 1000).toFixed(1)} s)`,
        attemptsBefore: exitStreak - 1,
      }
      return fail(pass, failure, { launch: null, exitStreak })
    }
    default:
      return unreachable(finding)
  }
}

async function pursue(pass: Pass): Promise<Next> {
  const { record, world, host } = pass
  const decided = decide(host, record, pass)
  const state = observedState(record, world, decided)
  switch (decided.outcome) {
    case 'settled':
      return settle(pass, state)
    case 'wait':
      return wait(pass, decided, state)
    case 'blocked':
      return fail(pass, { ...decided, message: decided.because }, {}, state)
    case 'act':
      return act(pass, decided.steps, state)
    default:
      return unreachable(decided)
  }
}

/** Says what is waited for; past the deadline that is a fault, and is waited for all the same. */
function wait(pass: Pass, waiting: Waiting, state: ObservedState): Next {
  const shown = observed(pass, state)
  const waitedMs = pass.host.clock.now() - shown.sinceMs
  if (waitedMs >= waiting.deadlineMs) {
    const message = `${state} for ${Math.round(waitedMs / 1000)} s, waiting for ${waiting.for}`
    const step = waiting.for === 'the monitor to answer' ? 'monitor.inspect' : 'unit.inspect'
    return fail(pass, { step, code: 'wait_overdue', retry: 'backoff', message }, {}, state)
  }
  write(pass, { observed: { ...shown, waitingFor: waiting.for } })
  return { kind: 'after', ms: waiting.recheckMs }
}

function settle(pass: Pass, state: ObservedState): Next {
  const { record, store, log, wake } = pass
  if (record.deleting) {
    store.vms.forget(record.id)
    log.info({ reasons: wake.reasons }, 'deleted')
    return { kind: 'gone' }
  }
  const { fault: _mended, ...rest } = observed(pass, state)
  const rises = record.generations.observed < record.generations.desired
  const streak = record.desired.power === 'stopped' ? { exitStreak: 0 } : {}
  write(pass, { ...streak, observed: rest, observedGeneration: record.generations.desired })
  if (rises) log.info({ reasons: wake.reasons, state }, 'reached the desired generation')
  return {
    kind: 'after',
    ms: Math.round(limits.resyncMs * (1 - limits.retryJitter * pass.host.clock.random())),
  }
}

/** A bug in the pass of one VM: say so, leave that VM alone for a while, and let the others go on. */
export function quarantine({ store, host, log }: PassContext, id: VmId, bug: unknown): Next {
  log.error({ vm_id: id, error: bug }, 'a bug stopped the pass of this VM')
  const record = store.vms.get(id)
  if (record === undefined) return { kind: 'gone' }
  const nowMs = host.clock.now()
  const failure: Failure = { step: 'pass', code: 'bug', retry: 'on-change', message: errorChain(bug) }
  const fault = nextFault(record, failure, { nowMs, random: host.clock.random() })
  store.vms.recordProgress(id, {
    observed: { ...record.observed, state: 'failed', sinceMs: nowMs, fault },
    nowMs,
  })
  return { kind: 'after', ms: fault.nextAttemptAtMs - nowMs }
}
