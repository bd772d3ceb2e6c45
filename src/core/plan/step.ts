import type { FaultCode, RetryClass } from '../errors.ts'
import type { DiskLimits, ImageRole } from '../vm/desired.ts'
import type { Sha256 } from '../vm/ids.ts'

/**
 * The closed table of what can be done to the host for one VM. Each step is `room.verb-object` and safe to repeat, also
 * after half a failure and when a sibling never ran. Its executor is in the table of `reconcile/steps/steps.ts`.
 */
export type StepArguments = {
  'image.ensure-fetched': { readonly role: ImageRole; readonly sha256: Sha256 }
  'storage.ensure-disk': { readonly sizeMib: number }
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
  'console.ensure-master': NoArguments
  'console.remove-master': NoArguments
  'console.end-session': NoArguments
  'console.remove': NoArguments
  /** `restore`: from what was saved; the vCPUs stand still then. */
  'unit.ensure-started': { readonly paused: boolean; readonly restore: boolean }
  'unit.ensure-stopped': NoArguments
  'monitor.ensure-running': NoArguments
  /** The guest is saved, or goes on where packets came since `packets` were counted. */
  'monitor.ensure-saved': { readonly packets: number }
  'monitor.ensure-restored': NoArguments
  'monitor.ensure-paused': NoArguments
  'monitor.ensure-disk-size': { readonly sizeMib: number }
  'monitor.ensure-disk-limits': { readonly limits: DiskLimits }
}
type NoArguments = { readonly [name in never]: never }

/**
 * Steps of one lane depend on those before them in it, and not on those of another; steps without a lane depend on all
 * before them.
 */
export type Lane = 'power' | 'console' | 'storage' | 'network'

export type StepKind = keyof StepArguments
export type StepOf<K extends StepKind> = {
  [P in K]: { readonly kind: P; readonly because: string; readonly lane?: Lane } & StepArguments[P]
}[K]
export type Step = StepOf<StepKind>

export type WaitReason = 'the unit to start' | 'the unit to stop' | 'the monitor to answer'

/** The way cannot be gone now; `retry` says when looking again may help. */
export type Blocked = {
  readonly outcome: 'blocked'
  /** The step that is refused, or the inspection that failed (`storage.inspect`). */
  readonly step: string
  readonly code: FaultCode
  readonly retry: RetryClass
  readonly because: string
}

export type Waiting = {
  readonly outcome: 'wait'
  readonly for: WaitReason
  readonly recheckMs: number
  /** Of the whole wait, after which it is a fault, and still waited for. */
  readonly deadlineMs: number
  /** For how long it is waited for already; counted from when the state began if absent. */
  readonly waitedMs?: number
}

/** The whole way from what is to what shall be, up to the first wait. */
export type Plan =
  | { readonly outcome: 'settled' }
  | { readonly outcome: 'act'; readonly steps: readonly [Step, ...Step[]] }
  | Waiting
  | Blocked
