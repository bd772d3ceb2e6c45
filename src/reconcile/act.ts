import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { drainFact } from '../core/maintenance/drain.ts'
import { backOffOf } from '../core/plan/back-off.ts'
import { isInTurn } from '../core/plan/plan-wake.ts'
import { launchBeforeMove } from '../core/status/launch.ts'
import { withDelivery } from '../core/status/wake-progress.ts'
import { hasBegun, isOvertaken } from '../core/vm/record.ts'
import { given } from '../lib/given.ts'
import { hindranceOf } from '../log/error-chain.ts'
import { addToLogContext } from '../log/log.ts'
import { fail, observed, write } from './progress.ts'
import { runStep } from './run-step.ts'
import { StepLog } from './step-log.ts'
import { isLong } from './steps/steps.ts'
import type { Step } from '../core/plan/step.ts'
import type { Failure } from '../core/retry/retry.ts'
import type { Launch, ObservedState, WaitReason } from '../core/vm/record.ts'
import type { Delivery } from '../core/world/network-state.ts'
import type { Next, Pass } from './context.ts'
import type { StepNotes } from './steps/executor.ts'

/** Runs the steps that no back-off holds. */
export async function act(
  pass: Pass,
  steps: readonly [Step, ...Step[]],
  state: ObservedState,
): Promise<Next> {
  const { record, cause } = pass
  const { free, ms: heldMs } = holdOf(pass, steps)
  const [first] = free
  if (first === undefined) {
    write(pass, { observed: observed(pass, record.observed.state) })
    return { kind: 'after', ms: heldMs }
  }
  if (cause.actingPasses >= limits.actingPassesMax) return fail(pass, notConverging(first))
  const shown = {
    ...observed(pass, heldMs > 0 ? record.observed.state : state),
    ...given({ waitingFor: waitOf(first) }),
  }
  const launch = launchBeforeMove(record, free)
  write(pass, { observed: shown, ...given({ launch }), ...(isSave(free) ? { mayBeSaved: true } : {}) })
  // The note that the daemon ends the guest must be on the disk before the guest ends.
  if (launch !== undefined) await pass.store.flushed()
  return inPlaceIfNeeded(pass, free, () => runSteps(pass, free, state))
}

/** Returns the steps that may run now, and for how long the back-off holds the others. It never holds a change. */
function holdOf(
  { record, host, cause }: Pass,
  steps: readonly Step[],
): { readonly free: readonly Step[]; readonly ms: number } {
  if (cause.changedAtMs !== undefined) return { ms: 0, free: steps }
  return backOffOf(steps, record.observed.fault, host.clock.now())
}

/** Runs the steps. A save, or a restore in its turn, takes one of a few places first. */
function inPlaceIfNeeded(
  { store, saves, restores, record }: Pass,
  steps: readonly Step[],
  run: () => Promise<Next>,
): Promise<Next> {
  if (isSave(steps)) {
    return saves.run(record.id, async () => {
      // The note that something may be saved must be on the disk before anything is saved.
      await store.flushed()
      return run()
    })
  }
  if (isRestore(steps) && isInTurn(record.wake?.reason)) return restores.run(record.id, run)
  return run()
}

const isSave = (steps: readonly Step[]): boolean => steps.some(({ kind }) => kind === 'monitor.ensure-saved')

const isRestore = (steps: readonly Step[]): boolean =>
  steps.some(({ kind }) => kind === 'monitor.ensure-restored')

/** How the steps of a pass ended, or one of them. */
type Outcome =
  | { readonly kind: 'done' }
  /** An abort, a change or a drain came first; the next look decides about the rest. */
  | { readonly kind: 'overtaken' }
  /** The first failure, which ended the lane of its step, or the pass if the step has no lane. */
  | { readonly kind: 'failed'; readonly ended: 'lane' | 'pass'; readonly failure: Failure }

async function runSteps(pass: Pass, steps: readonly Step[], state: ObservedState): Promise<Next> {
  const stepLog = new StepLog(pass)
  const outcome = await runInOrder(pass, steps, { state, stepLog }).finally(() => stepLog.write())
  if (outcome.kind !== 'failed') return { kind: 'again' }
  const { failure, ended } = outcome
  // A guest that cannot be saved keeps running.
  if (ended === 'pass') return fail(pass, failure, isSave(steps) ? { state } : {})
  const next = fail(pass, failure)
  // A new look must show what was repaired meanwhile; the back-off holds the rest.
  return stepLog.count === 0 ? next : { ...next, ms: Math.min(next.ms, limits.unitRecheckMs) }
}

/** The state that the VM shows meanwhile, and the log of its steps. */
type RunContext = { readonly state: ObservedState; readonly stepLog: StepLog }

/** Runs the steps in order. A failed step ends its lane; a failed step without a lane ends the pass. */
async function runInOrder(pass: Pass, steps: readonly Step[], context: RunContext): Promise<Outcome> {
  const endedLanes = new Set<Step['lane']>()
  let result: Outcome = { kind: 'done' }
  let shownWait = steps[0] && waitOf(steps[0])
  for (const [index, step] of steps.entries()) {
    if (pass.signal.aborted || isSuperseded(pass, steps.slice(0, index)) || isDrainedSince(pass, step))
      return { kind: 'overtaken' }
    if (step.lane !== undefined && endedLanes.has(step.lane)) continue
    // It may take hours, and what was done before it must not wait for that.
    if (isLong(step)) context.stepLog.write()
    const wait = waitOf(step)
    if (wait !== shownWait) showWait(pass, wait)
    shownWait = wait
    const outcome = await addToLogContext({ step: step.kind }, () => runOne(pass, step, context))
    if (outcome.kind === 'done') continue
    if (outcome.kind === 'overtaken' || outcome.ended === 'pass') return outcome
    endedLanes.add(step.lane)
    if (result.kind === 'done') result = outcome
  }
  return result
}

/** Returns what a VM waits for while this step runs. A fetch may last for hours, or wait for a place. */
const waitOf = ({ kind }: Step): WaitReason | undefined =>
  kind === 'image.ensure-fetched' ? 'the image' : undefined

/** Shows the wait of the step that begins, and leaves the rest as the step before it left it. */
function showWait(pass: Pass, waitingFor: WaitReason | undefined): void {
  const shown = pass.store.vms.get(pass.record.id)?.observed
  if (shown === undefined) return
  const { waitingFor: _past, ...rest } = shown
  write(pass, { observed: { ...rest, ...given({ waitingFor }) } })
}

async function runOne(pass: Pass, step: Step, { state, stepLog }: RunContext): Promise<Outcome> {
  const { host, log, signal } = pass
  const startedAtMs = host.clock.monotonicMs()
  const elapsedMs = (): number => host.clock.monotonicMs() - startedAtMs
  const notes: StepNotes = {}
  try {
    await pass.during(step, () => runStep(step, { ...pass, notes }))
  } catch (error) {
    if (notes.delivery !== undefined) {
      log.info({ ...notes.delivery }, 'frames delivered in a failed step')
      noteDelivery(pass, notes.delivery, state)
    }
    if (signal.aborted) return { kind: 'overtaken' }
    if (!(error instanceof HostFault)) throw error
    pass.observer?.stepEnded(step.kind, elapsedMs(), error.code)
    const failure = { step: step.kind, ...hindranceOf(error) }
    return { kind: 'failed', ended: step.lane === undefined ? 'pass' : 'lane', failure }
  }
  pass.observer?.stepEnded(step.kind, elapsedMs())
  stepLog.add(step, notes, startedAtMs)
  recordDone(pass, step, { state, notes })
  return { kind: 'done' }
}

/** Adds to the record what a step changed that was done. */
function recordDone(
  pass: Pass,
  step: Step,
  { state, notes }: { readonly state: ObservedState; readonly notes: StepNotes },
): void {
  if (notes.delivery !== undefined) noteDelivery(pass, notes.delivery, state)
  const launch = launchAfter(step, pass)
  if (launch !== undefined) write(pass, { observed: observed(pass, state), launch })
  if (step.kind === 'image.ensure-fetched') pass.onImage?.()
  if (step.kind === 'monitor.ask-to-end') noteAsked(pass, state)
  if (step.kind === 'monitor.ensure-saved' && notes.givenUp === undefined) noteSaved(pass, state)
}

function noteAsked(pass: Pass, state: ObservedState): void {
  pass.hostEnd.noteAsked(pass.record.id)
  const { grace } = pass.record.stops
  if (grace === undefined) return
  const askedToEnd = { stop: grace.stop, atMs: pass.host.clock.now() }
  write(pass, { observed: observed(pass, state), askedToEnd })
}

/** Clears the fault that kept the guest from falling asleep. It has ended, even if the guest does not stay asleep. */
function noteSaved(pass: Pass, state: ObservedState): void {
  const { fault: _mended, ...shown } = observed(pass, state)
  write(pass, { observed: shown })
}

/** Adds the delivery to the running wake. If the save was given up, the guest was never asleep. */
function noteDelivery(pass: Pass, delivery: Delivery, state: ObservedState): void {
  const wake = pass.store.vms.get(pass.record.id)?.wake
  if (!hasBegun(wake)) return
  const atMs = pass.host.clock.now()
  write(pass, { observed: observed(pass, state), wake: withDelivery(wake, delivery, atMs) })
}

/** Returns the launch after a step. A start or a stop by the daemon changes what counts as an exit from then on. */
function launchAfter(step: Step, { record, host }: Pass): Launch | null | undefined {
  if (step.kind === 'unit.ensure-stopped') return null
  if (step.kind !== 'unit.ensure-started') return undefined
  const consoleFrom = host.consoles.lastSession(record.id)?.output.end
  return {
    bootId: host.bootId,
    atMs: host.clock.now(),
    compute: record.desired.compute,
    ...given({ consoleFrom }),
  }
}

/**
 * Returns whether a change, or a request for the guest, supersedes the rest of the plan; the guest must then not be put
 * to sleep. A guest that was restored is first brought back, because restoring it again would take as long. The end of
 * the VM aborts even that.
 */
function isSuperseded({ store, record }: Pass, done: readonly Step[]): boolean {
  if (done.some(({ kind }) => kind === 'monitor.ensure-restored')) return false
  const now = store.vms.wantedOf(record.id)
  return now === undefined || isOvertaken(record, now)
}

/** Returns whether the step starts a guest, and the host was drained since the plan was made. */
const isDrainedSince = ({ store, record }: Pass, { kind }: Step): boolean =>
  kind === 'unit.ensure-started' && drainFact(store.maintenance.get(), record) !== undefined

const notConverging = (step: Step): Failure => ({
  step: step.kind,
  code: 'not_converging',
  retry: 'backoff',
  message: `done ${limits.actingPassesMax} times in a row, and still needed because ${step.because}`,
})
