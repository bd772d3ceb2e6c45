import { limits } from '../../config/limits.ts'
import { unreachable } from '../../lib/assert.ts'
import { endingTogetherMs } from '../../lib/ending-together.ts'
import type { Hindrance, RetryClass } from '../errors.ts'
import type { Fault, MemoryQueuePlace, VmRecord, WaitReason } from '../vm/record.ts'

/** A failure of a pass, before it is counted. */
export type Failure = Hindrance & {
  readonly step: string
  /** As in a plan that is blocked (`core/plan/step.ts`). */
  readonly waitingFor?: WaitReason
  /** The place in the queue of a wait that is overdue. */
  readonly memoryQueue?: MemoryQueuePlace
  /** Number of earlier attempts, if something other than the fault on record counts them. */
  readonly attemptsBefore?: number
  /** When that tries again. Milliseconds since the epoch. */
  readonly nextAttemptAtMs?: number
}

/**
 * Returns the fault to record. The same failure again raises the count, and waits longer. `random` is from 0 up to 1.
 */
export function nextFault(record: VmRecord, failure: Failure, now: { nowMs: number; random: number }): Fault {
  const last = record.observed.fault
  const again = last?.step === failure.step && last.code === failure.code
  const attempt = (failure.attemptsBefore ?? (again ? last.attempt : 0)) + 1
  return {
    code: failure.code,
    step: failure.step,
    message: failure.message,
    generation: record.generations.desired,
    sinceMs: again ? last.sinceMs : now.nowMs,
    attempt,
    nextAttemptAtMs: failure.nextAttemptAtMs ?? now.nowMs + retryDelayMs(failure.retry, attempt, now.random),
  }
}

/**
 * Returns the milliseconds until attempt + 1: doubled each time up to a cap, and jittered so that VMs don't retry in
 * step.
 */
export function retryDelayMs(retry: RetryClass, attempt: number, random: number): number {
  return Math.round(plainDelayMs(retry, attempt) * (1 - limits.retryJitter * random))
}

/** The number of VMs on this host, a number from 0 up to 1, and the time of a clock that is never set back. */
export type ResyncTerms = { readonly vms: number; readonly random: number; readonly monotonicMs: number }

/**
 * Returns the milliseconds until a settled VM is looked at again, if nothing asks for it before. A longer delay with
 * many VMs bounds what all of them cost while nothing happens.
 */
export const resyncDelayMs = (terms: ResyncTerms): number =>
  withOthersMs(resyncIntervalMs(terms.vms) * (1 - limits.retryJitter * terms.random), terms)

/**
 * Returns the milliseconds after a start until a VM that rests is first looked at. The looks at all VMs are spread over
 * the interval at which each is looked at.
 */
export const firstLookDelayMs = (terms: ResyncTerms): number =>
  withOthersMs(resyncIntervalMs(terms.vms) * (1 - terms.random), terms)

const resyncIntervalMs = (vms: number): number =>
  Math.max(limits.resyncMs, (vms * 1000) / limits.resyncsPerSecondMax)

/** Shortens a delay so that looks come together, and share checks of the host. */
const withOthersMs = (ms: number, { monotonicMs }: ResyncTerms): number =>
  endingTogetherMs(ms, limits.resyncsTogetherMs, monotonicMs)

function plainDelayMs(retry: RetryClass, attempt: number): number {
  switch (retry) {
    case 'soon':
      // What blocks a VM may stay until an operator acts, such as an address that another guest still has.
      return attempt <= limits.retriesSoonMax
        ? limits.retrySoonMs
        : plainDelayMs('backoff', attempt - limits.retriesSoonMax)
    case 'backoff':
      // 2^20 times the minimum exceeds any cap; the bound keeps the power finite.
      return Math.min(limits.retryBackoffMsMax, limits.retryBackoffMsMin * 2 ** Math.min(attempt - 1, 20))
    case 'on-change':
      return limits.retryBackoffMsMax
    default:
      return unreachable(retry)
  }
}
