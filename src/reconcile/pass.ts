import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { findLaunch } from '../core/vm/launch.ts'
import { observedState } from '../core/vm/observed-state.ts'
import { nextFault } from '../core/vm/retry.ts'
import { unreachable } from '../lib/assert.ts'
import { errorChain } from '../log/error-chain.ts'
import { decide } from './decide.ts'
import { intentOf } from './intent.ts'
import { observe } from './observe/observe.ts'
import { runStep } from './run-step.ts'
import type { Plan, Step } from '../core/plan/step.ts'
import type { World } from '../core/plan/world.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { Launch, Observed, ObservedState, VmRecord } from '../core/vm/record.ts'
import type { Failure } from '../core/vm/retry.ts'
import type { Log } from '../log/log.ts'
import type { Host } from '../ports/host.ts'
import type { Store } from '../store/store.ts'
import type { Progress, VmInputs } from '../store/vm-table.ts'
import type { Intent } from './intent.ts'

export type PassContext = { readonly store: Store; readonly host: Host; readonly log: Log }

/** Why a pass runs. */
export type Wake = {
  readonly reasons: readonly string[]
  /** When (monotonic) desired state or its inputs changed; a change is not held by a back-off. */
  readonly changedAtMs?: number
  /** Passes in a row that acted before this one. */
  readonly actingPasses: number
}

/** What the worker does after a pass. */
export type Next =
  | { readonly kind: 'again' }
  | { readonly kind: 'after'; readonly ms: number }
  | { readonly kind: 'gone' }

/** One pass over one VM: what it read at its start, and what it found. */
type Pass = PassContext & {
  readonly wake: Wake
  readonly signal: AbortSignal
  /** Read once: desired state and its generation belong together, and the generation published is this one. */
  readonly record: VmRecord
  readonly inputs: VmInputs
  readonly intent: Intent
  readonly world: World
}

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
    intent: intentOf(record, inputs),
    world,
  }
  return noteLaunch(pass) ?? (await pursue(pass))
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
  const { record, world, host, wake } = pass
  const decided = decide(host, record, pass)
  const state = observedState(record, world, decided)
  switch (decided.outcome) {
    case 'settled':
      return settle(pass, state)
    case 'wait':
      write(pass, { observed: observed(pass, state) })
      return { kind: 'after', ms: decided.recheckMs }
    case 'blocked':
      return fail(pass, { ...decided, message: decided.because }, {}, state)
    case 'act': {
      const heldMs = wake.changedAtMs !== undefined ? 0 : heldForMs(record, host.clock.now())
      if (heldMs > 0) return { kind: 'after', ms: heldMs }
      if (wake.actingPasses >= limits.actingPassesMax) return fail(pass, notConverging(decided.steps[0]))
      write(pass, { observed: observed(pass, state) })
      return act(pass, decided, state)
    }
    default:
      return unreachable(decided)
  }
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

async function act(pass: Pass, decided: Plan & { outcome: 'act' }, state: ObservedState): Promise<Next> {
  const { store, host, log, signal, wake } = pass
  for (const [index, step] of decided.steps.entries()) {
    if (signal.aborted || isSuperseded(pass)) return { kind: 'again' }
    const startedAtMs = host.clock.monotonicMs()
    try {
      await runStep(step, { ...pass, storeId: store.storeId })
    } catch (error) {
      if (signal.aborted) return { kind: 'again' }
      if (!(error instanceof HostFault)) throw error
      return fail(pass, { step: step.kind, code: error.code, retry: error.retry, message: errorChain(error) })
    }
    const elapsed_ms = rounded(host.clock.monotonicMs() - startedAtMs)
    const first = index === 0 ? firstAction(wake, startedAtMs) : {}
    log.info({ step: step.kind, because: step.because, elapsed_ms, ...first }, 'step done')
    const launch = launchAfter(step, pass)
    if (launch !== undefined) write(pass, { observed: observed(pass, state), launch })
  }
  return { kind: 'again' }
}

/** How long the host stood still after a change that this pass is the first to act on. */
const firstAction = ({ changedAtMs, actingPasses }: Wake, startedAtMs: number): object =>
  changedAtMs === undefined || actingPasses > 0 ? {} : { first_action_ms: rounded(startedAtMs - changedAtMs) }

/** To a tenth of a millisecond. */
const rounded = (ms: number): number => Math.round(ms * 10) / 10

/** A start or a stop by us changes what counts as an exit from then on. */
function launchAfter(step: Step, { record, host }: Pass): Launch | null | undefined {
  if (step.kind === 'unit.ensure-stopped') return null
  if (step.kind !== 'unit.ensure-started') return undefined
  return { bootId: host.bootId, atMs: host.clock.now(), compute: record.desired.compute }
}

function fail(
  pass: Pass,
  failure: Failure,
  also: Partial<Progress> = {},
  state: ObservedState = 'failed',
): Next {
  const { record, host, log, wake } = pass
  const nowMs = host.clock.now()
  const fault = nextFault(record, failure, { nowMs, random: host.clock.random() })
  const shown = record.deleting ? 'deleting' : state
  write(pass, { ...also, observed: { ...observed(pass, shown), fault } })
  const { code, step, attempt, nextAttemptAtMs } = fault
  log.warn({ step, code, attempt, reasons: wake.reasons, error: failure.message }, 'pass failed')
  return { kind: 'after', ms: (nextAttemptAtMs ?? nowMs) - nowMs }
}

/** What is shown besides the state, as seen in this pass; the fault stands until the VM is settled. */
function observed({ record, world }: Pass, state: ObservedState): Observed {
  const { fault } = record.observed
  const live = world.unit.known && world.unit.value.kind === 'active' ? world.unit.value : undefined
  const storage = world.storage.known ? world.storage.value : undefined
  const disk = storage === undefined ? record.observed.disk : sizeOf(storage.disk)
  const compute = record.launch?.compute
  return {
    state,
    ...(fault === undefined ? {} : { fault }),
    ...(live === undefined || compute === undefined ? {} : { compute }),
    ...(disk === undefined ? {} : { disk }),
    ...(live === undefined ? {} : { startedAtMs: live.startedAtMs }),
  }
}

const sizeOf = (disk: { kind: 'absent' } | { kind: 'present'; sizeMib: number }) =>
  disk.kind === 'absent' ? undefined : { sizeMib: disk.sizeMib }

function write({ store, record, host }: Pass, progress: Omit<Progress, 'nowMs'>): void {
  store.vms.recordProgress(record.id, { ...progress, nowMs: host.clock.now() })
}

const isSuperseded = ({ store, record }: Pass): boolean =>
  store.vms.get(record.id)?.generations.desired !== record.generations.desired

const heldForMs = (record: VmRecord, nowMs: number): number =>
  (record.observed.fault?.nextAttemptAtMs ?? nowMs) - nowMs

const notConverging = (step: Step): Failure => ({
  step: step.kind,
  code: 'not_converging',
  retry: 'backoff',
  message: `done ${limits.actingPassesMax} times in a row, and still needed because ${step.because}`,
})

/** A bug in the pass of one VM: say so, leave that VM alone for a while, and let the others go on. */
export function quarantine({ store, host, log }: PassContext, id: VmId, bug: unknown): Next {
  log.error({ vm_id: id, error: bug }, 'a bug stopped the pass of this VM')
  const record = store.vms.get(id)
  if (record === undefined) return { kind: 'gone' }
  const nowMs = host.clock.now()
  const failure: Failure = { step: 'pass', code: 'bug', retry: 'on-change', message: errorChain(bug) }
  const fault = nextFault(record, failure, { nowMs, random: host.clock.random() })
  store.vms.recordProgress(id, { observed: { ...record.observed, state: 'failed', fault }, nowMs })
  return { kind: 'after', ms: (fault.nextAttemptAtMs ?? nowMs) - nowMs }
}
