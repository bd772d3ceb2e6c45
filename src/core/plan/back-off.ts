import { limits } from '../../config/limits.ts'
import type { Fault } from '../vm/record.ts'
import type { Step } from './step.ts'

/** How long the back-off of a fault still holds steps, and the steps that it does not hold. */
type BackOff = { readonly ms: number; readonly free: readonly Step[] }

/**
 * Returns what the back-off of a fault holds: the failed step with its lane, or a start after an exit. Other steps do
 * not wait.
 */
export function backOffOf(steps: readonly Step[], fault: Fault | undefined, nowMs: number): BackOff {
  const ms = (fault?.nextAttemptAtMs ?? nowMs) - nowMs
  // No back-off is this long, so the clock was set back since.
  const isOver = ms <= 0 || ms > limits.retryBackoffMsMax
  if (fault === undefined || isOver) return { ms: 0, free: steps }
  // A bug, or a record that cannot be written, concerns every step.
  if (fault.step === 'pass') return { ms, free: [] }
  const about = steps.find(
    ({ kind }) => kind === (fault.step === 'unit.run' ? 'unit.ensure-started' : fault.step),
  )
  if (about === undefined) return { ms: 0, free: steps }
  if (about.lane === undefined) return { ms, free: [] }
  return { ms, free: steps.filter(({ lane }) => lane !== about.lane) }
}
