import { limits } from '../../config/limits.ts'
import type { Fault } from '../vm/record.ts'
import type { Step } from './step.ts'

/** How long the back-off of a fault still holds steps, and the steps that it does not hold. */
type BackOff = { readonly ms: number; readonly free: readonly Step[] }

/**
 * Returns how long the back-off of a fault still lasts. One that is longer than the bound ends: the clock was set back.
 */
export function backOffLeftMs({ nextAttemptAtMs }: Fault, nowMs: number): number {
  const ms = nextAttemptAtMs - nowMs
  return ms > limits.retryBackoffMsMax ? 0 : Math.max(0, ms)
}

/**
 * Returns what the back-off of a fault holds: the failed step with its lane, or a start after an exit. Other steps do
 * not wait.
 */
export function backOffOf(steps: readonly Step[], fault: Fault | undefined, nowMs: number): BackOff {
  const ms = fault === undefined ? 0 : backOffLeftMs(fault, nowMs)
  if (fault === undefined || ms === 0) return { ms: 0, free: steps }
  // A bug, or a record that cannot be written, concerns every step.
  if (fault.step === 'pass') return { ms, free: [] }
  const failed = steps.find(
    ({ kind }) => kind === (fault.step === 'unit.run' ? 'unit.ensure-started' : fault.step),
  )
  if (failed === undefined) return { ms: 0, free: steps }
  if (failed.lane === undefined) return { ms, free: [] }
  return { ms, free: steps.filter(({ lane }) => lane !== failed.lane) }
}
