import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import { SnapshotGone } from './entry.ts'
import type { FaultCode } from '../../core/errors.ts'

/** What became of something that a course does. A message is in plain words, without any part of a URL. */
export type Outcome =
  /** What is on record tells what is next. */
  | { readonly kind: 'done' }
  /** The VM is in the middle of something, and that is no trouble. */
  | { readonly kind: 'later'; readonly because: string }
  /** Tried again after a while, `attemptsMax` times where that has an end; then fresh URLs let it go on. */
  | {
      readonly kind: 'again'
      readonly code: FaultCode
      readonly message: string
      readonly retryAfterMs?: number
      readonly attemptsMax?: number
    }
  /** Its URLs are used up: the controller has to hand over fresh ones. */
  | { readonly kind: 'expired'; readonly message: string }
  | {
      readonly kind: 'failed'
      readonly code: FaultCode
      readonly message: string
      /** Whether fresh URLs let it go on from where it is. */
      readonly resumable: boolean
    }
  | { readonly kind: 'bug'; readonly error: unknown }

export const done: Outcome = { kind: 'done' }

export const failed = (code: FaultCode, message: string, resumable = false): Outcome => ({
  kind: 'failed',
  code,
  message,
  resumable,
})

/** Ends what a course does from within, as the outcome that it carries. */
export class CourseEnd extends Error {
  override readonly name = 'CourseEnd'
  readonly outcome: Outcome

  constructor(outcome: Outcome) {
    super('the course of a snapshot ends')
    this.outcome = outcome
  }
}

/** No second try mends them: what was staged is of no use, or of no place. */
const FOR_GOOD: readonly FaultCode[] = ['storage_full', 'staging_lost']

/** What was thrown, as an outcome. */
export function outcomeOf(error: unknown, signal: AbortSignal): Outcome {
  if (error instanceof CourseEnd) return error.outcome
  // The record tells what is next: nothing.
  if (error instanceof SnapshotGone || signal.aborted) return done
  if (!(error instanceof HostFault)) return { kind: 'bug', error }
  const message = errorChain(error)
  return FOR_GOOD.includes(error.code)
    ? failed(error.code, message)
    : { kind: 'again', code: error.code, message }
}
