import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import { SnapshotGone } from './entry.ts'
import type { FaultCode } from '../../core/errors.ts'

/** The end of a snapshot without success. */
export type Failure = {
  readonly code: FaultCode
  readonly message: string
  /** Whether fresh URLs let the snapshot continue from where it is. */
  readonly resumable: boolean
}

/** Result of one action of a course. Messages are in plain words, without any part of a URL. */
export type Outcome =
  /** The record shows what comes next. */
  | { readonly kind: 'done' }
  /** The VM is in the middle of a change; this is not trouble. */
  | { readonly kind: 'vm_busy'; readonly because: string }
  /**
   * The action is tried again after a while, at most `attemptsMax` times if that is set. After the last try, only fresh
   * URLs let it continue.
   */
  | {
      readonly kind: 'retry'
      readonly code: FaultCode
      readonly message: string
      readonly retryAfterMs?: number
      readonly attemptsMax?: number
    }
  /** The URLs are used up: the controller must hand over fresh ones. */
  | { readonly kind: 'expired'; readonly message: string }
  | ({ readonly kind: 'failed' } & Failure)
  | { readonly kind: 'bug'; readonly error: unknown }

export const done: Outcome = { kind: 'done' }

export const failed = (code: FaultCode, message: string, resumable = false): Outcome => ({
  kind: 'failed',
  code,
  message,
  resumable,
})

/** The failure of a snapshot whose staging is given up. */
export const staleFailure = (message: string): Failure => ({
  code: 'staging_stale',
  message,
  resumable: false,
})

/** Returns the change of a record that fails. */
export const failedChange = ({ code, message, resumable }: Failure, nowMs: number) =>
  ({ stage: 'failed', resumable, trouble: { code, message, sinceMs: nowMs, attempt: 1 } }) as const

/** Ends an action of a course from within; carries its outcome. */
export class CourseEnd extends Error {
  override readonly name = 'CourseEnd'
  readonly outcome: Outcome

  constructor(outcome: Outcome) {
    super('the course of a snapshot ends')
    this.outcome = outcome
  }
}

/** Faults that another try cannot repair: the staged parts are unusable, or there is no room for them. */
const FOR_GOOD: readonly FaultCode[] = ['storage_full', 'staging_lost']

/** Turns a thrown error into an outcome. */
export function outcomeOf(error: unknown, signal: AbortSignal): Outcome {
  if (error instanceof CourseEnd) return error.outcome
  // The record shows that nothing comes next.
  if (error instanceof SnapshotGone || signal.aborted) return done
  if (!(error instanceof HostFault)) return { kind: 'bug', error }
  const message = errorChain(error)
  return FOR_GOOD.includes(error.code)
    ? failed(error.code, message)
    : { kind: 'retry', code: error.code, message }
}
