import { limits } from '../../config/limits.ts'
import { unreachable } from '../../lib/assert.ts'
import { given } from '../../lib/given.ts'
import type { DiskLimits, ImageRole } from '../desired.ts'
import type { FaultCode, Hindrance, RetryClass } from '../errors.ts'
import type { Sha256 } from '../ids.ts'
import type { MemoryQueuePlace, WaitReason } from '../vm/record.ts'

/**
 * The closed table of everything that can be done to the host for one VM. Each step is named `room.verb-object` and is
 * safe to repeat, also after it failed half-way or a sibling never ran. Its executor is in the table of
 * `reconcile/steps/steps.ts`.
 */
type StepArguments = {
  'image.ensure-fetched': { readonly role: ImageRole; readonly sha256: Sha256 }
  'storage.ensure-disk': { readonly sizeMib: number }
  'storage.rebuild-disk': { readonly sizeMib: number }
  'storage.ensure-seed': { readonly digest: string }
  'storage.remove-disk': NoArguments
  'storage.remove-saved': NoArguments
  'network.ensure-tap': NoArguments
  'network.ensure-firewall': NoArguments
  'network.ensure-attached': { readonly mainPid: number }
  'network.remove-tap': NoArguments
  'traffic.ensure-watched': NoArguments
  'traffic.ensure-held': NoArguments
  'traffic.ensure-flowing': { readonly deliver: boolean }
  'network.remove-firewall': NoArguments
  'memory.ensure-held': NoArguments
  'console.ensure-master': NoArguments
  'console.remove-master': NoArguments
  'console.end-session': NoArguments
  'console.remove': NoArguments
  /** `restore`: start from the saved state, with the vCPUs stopped. */
  'unit.ensure-started':
    | { readonly restore: false; readonly paused: boolean }
    | { readonly restore: true; readonly paused: true }
  'unit.ensure-stopped': NoArguments
  'monitor.ensure-running': NoArguments
  /**
   * Saves the guest, or resumes it if packets came since `packets` were counted. `anyway`: saves it whatever packets
   * came, because another host takes it, or this host shuts down or is drained.
   */
  'monitor.ensure-saved': { readonly packets: number; readonly anyway: boolean }
  'monitor.ensure-restored': NoArguments
  'monitor.ensure-paused': NoArguments
  'monitor.ask-to-end': NoArguments
  'monitor.ensure-disk-size': { readonly sizeMib: number }
  'monitor.ensure-disk-limits': { readonly limits: DiskLimits }
}
type NoArguments = { readonly [name in never]: never }

/**
 * Names the lane of a step. A step in a lane depends only on earlier steps of that lane. A step without a lane depends
 * on all earlier steps.
 */
export type Lane = 'power' | 'console' | 'storage' | 'network'

export type StepKind = keyof StepArguments
export type StepOf<K extends StepKind> = {
  [P in K]: { readonly kind: P; readonly because: string; readonly lane?: Lane } & StepArguments[P]
}[K]
export type Step = StepOf<StepKind>

/** The plan cannot continue now; `retry` says when another look may help. */
export type Blocked = {
  readonly outcome: 'blocked'
  /** The step that is refused, or the inspection that failed (`storage.inspect`). */
  readonly step: string
  readonly code: FaultCode
  readonly retry: RetryClass
  readonly because: string
  /** Set for a VM that has nothing left to do by itself: what it waits for. */
  readonly waitingFor?: WaitReason
  /** Number of earlier attempts, and the time of the next one, if something other than the passes makes them. */
  readonly attemptsBefore?: number
  readonly nextAttemptAtMs?: number
}

/** Returns the block that a hindrance at this step makes. */
export const blockedBy = (
  step: string,
  { code, retry, message }: Hindrance,
  waitingFor?: WaitReason,
): Blocked => ({ outcome: 'blocked', step, code, retry, because: message, ...given({ waitingFor }) })

export type Waiting = {
  readonly outcome: 'wait'
  readonly for: WaitReason
  readonly recheckMs: number
  /**
   * Bound of the whole wait. Beyond it the wait is a fault, and continues. Absent if no length of the wait is a fault,
   * because another host, other VMs, a packet, a boot, an operator or a known time ends it.
   */
  readonly deadlineMs?: number
  /** How long the wait has lasted already; if absent, it counts from the first look at a wait in this state. */
  readonly waitedMs?: number
  /** The place in the queue that the wait is for. */
  readonly queue?: Omit<MemoryQueuePlace, 'sinceMs'>
}

/**
 * Returns whether this host has nothing to do for the VM until another host acts, a packet comes, this host boots, or
 * its maintenance ends.
 */
export const waitsForOthers = ({ for: reason }: Pick<Waiting, 'for'>): boolean =>
  reason === 'the source' ||
  reason === 'the release' ||
  reason === 'the destination' ||
  reason === 'late packets' ||
  reason === 'the host to start again' ||
  reason === 'the end of maintenance'

/** Returns a wait without a bound. A poke ends it. */
export const waiting = (what: WaitReason): Waiting => ({
  outcome: 'wait',
  for: what,
  recheckMs: limits.resyncMs,
})

/** All steps from the present state to the desired one, up to the first wait. */
export type Plan =
  | { readonly outcome: 'settled' }
  | { readonly outcome: 'act'; readonly steps: readonly [Step, ...Step[]] }
  | Waiting
  | Blocked

export const SETTLED: Plan = { outcome: 'settled' }

/** Renders a plan for people: the outcome, then a line for each step with its reason. */
export function renderPlan(plan: Plan): string {
  switch (plan.outcome) {
    case 'settled':
      return 'settled'
    case 'act':
      return ['act', ...plan.steps.map((step) => `  ${renderStep(step)} because ${step.because}`)].join('\n')
    case 'wait':
      return `wait for ${plan.for}${queueWords(plan)}, rechecked in ${plan.recheckMs / 1000} s${deadlineWords(plan)}`
    case 'blocked':
      return `blocked at ${plan.step} with ${plan.code} because ${plan.because}`
    default:
      return unreachable(plan)
  }
}

const deadlineWords = ({ deadlineMs }: Waiting): string =>
  deadlineMs === undefined ? '' : `; a fault after ${deadlineMs / 1000} s`

const queueWords = ({ queue }: Waiting): string =>
  queue === undefined ? '' : ` (place ${queue.place}, ${queue.missingMib} MiB missing)`

function renderStep(step: Step): string {
  const { kind, because: _because, lane: _lane, ...args } = step
  // A start without a saved state, and a save for sleep, are the default, so they are not shown.
  const reported = Object.entries(args).filter(([name, value]) => !DEFAULT_FALSE.has(name) || value === true)
  const words = reported.map(([name, value]) => `${name}=${brief(value)}`)
  return [kind, ...words].join(' ')
}

const DEFAULT_FALSE: ReadonlySet<string> = new Set(['restore', 'anyway'])

/** Shortens digests to their first bytes, which are enough to distinguish them. */
function brief(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return /^[0-9a-f]{64}$/.test(text) ? text.slice(0, 12) : text
}
