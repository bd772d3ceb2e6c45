import { limits } from '../config/limits.ts'
import { HostFault } from '../core/errors.ts'
import { deadlineMsOf, execute } from './steps/steps.ts'
import type { Step, StepKind } from '../core/plan/step.ts'
import type { StepContext } from './steps/executor.ts'

/**
 * Runs one step within its deadline. At the deadline the step is asked to stop, and gets a short extra time to do so. A
 * step that still runs after that is abandoned and named in the fault. This is safe, because every step may be
 * repeated. A step that must not delay the end of a guest is abandoned in the same way when the guest must end.
 */
export async function runStep(step: Step, context: Omit<StepContext, 'abandoned'>): Promise<void> {
  const { clock } = context.host
  const deadlineMs = deadlineMsOf(step, context.record)
  const fault = (what: string, cause?: unknown): HostFault => deadlineFault(step, deadlineMs, { what, cause })
  const pastDeadline = new AbortController()
  const abandoned = new AbortController()
  const signal = AbortSignal.any([context.signal, pastDeadline.signal])
  const running = execute(step, { ...context, signal, abandoned: abandoned.signal })
  let cancelAbandon = (): void => {}
  const { promise: leftRunning, reject } = Promise.withResolvers<never>()
  const abandonSoon = (): void => {
    cancelAbandon()
    cancelAbandon = clock.after(limits.stepGraceMs, () => {
      reject(fault('and did not stop when it was asked to'))
      abandoned.abort()
    })
  }
  pastDeadline.signal.addEventListener('abort', abandonSoon)
  if (BESIDE_A_GUEST.has(step.kind)) context.guestMustEnd.addEventListener('abort', abandonSoon)
  const cancelDeadline = clock.after(deadlineMs, () => pastDeadline.abort())
  try {
    await Promise.race([running, leftRunning])
  } catch (error) {
    if (pastDeadline.signal.aborted && !isDeadlineFault(error)) throw fault('and was stopped', error)
    throw error
  } finally {
    cancelDeadline()
    cancelAbandon()
    context.guestMustEnd.removeEventListener('abort', abandonSoon)
  }
}

/** Steps beside a guest that may wait long for the pool or the monitor, and harm nothing if they end later. */
const BESIDE_A_GUEST: ReadonlySet<StepKind> = new Set([
  'monitor.ensure-saved',
  'storage.ensure-disk',
  'storage.remove-saved',
])

const deadlineFault = (
  { kind }: Step,
  deadlineMs: number,
  { what, cause }: { readonly what: string; readonly cause: unknown },
): HostFault =>
  new HostFault('step_deadline', `${kind} took longer than ${deadlineMs / 1000} s ${what}`, { cause })

const isDeadlineFault = (error: unknown): boolean =>
  error instanceof HostFault && error.code === 'step_deadline'
