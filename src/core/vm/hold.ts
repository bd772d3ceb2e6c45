import { limits } from '../../config/limits.ts'
import type { Step } from '../plan/step.ts'
import type { Fault } from './record.ts'

/** For how long the back-off of a fault holds which steps; the others go on. */
export type Hold = { readonly ms: number; readonly free: readonly Step[] }

/**
 * A back-off holds what the fault is about: the step that failed with its lane, or a start after an exit. Whatever else
 * there is to do has nothing to wait for.
 */
export function holdSteps(steps: readonly Step[], fault: Fault | undefined, nowMs: number): Hold {
  const ms = (fault?.nextAttemptAtMs ?? nowMs) - nowMs
  // No back-off is longer: the clock was set back since.
  const isOver = ms <= 0 || ms > limits.retryBackoffMsMax
  if (fault === undefined || isOver) return { ms: 0, free: steps }
  // A bug may be anywhere.
  if (fault.step === 'pass') return { ms, free: [] }
  const about = steps.find(
    ({ kind }) => kind === (fault.step === 'unit.run' ? 'unit.ensure-started' : fault.step),
  )
  if (about === undefined) return { ms: 0, free: steps }
  if (about.lane === undefined) return { ms, free: [] }
  return { ms, free: steps.filter(({ lane }) => lane !== about.lane) }
}
