import { HostFault } from '../../core/errors.ts'
import { abortable } from '../../lib/abortable.ts'
import { given } from '../../lib/given.ts'
import type { Executor } from './executor.ts'

/**
 * Ensures that the monitor has the complete guest, paused, and that its memory is what was written. The memory is read
 * a second time beside the monitor, because the monitor cannot detect damage. If one of the two fails, the other is not
 * waited for. A guest that is not as it was saved ends with its unit, and must never be resumed.
 */
export const restoreGuest: Executor<'monitor.ensure-restored'> = async (_step, context) => {
  const { host, record, intent, signal } = context
  const failed = new AbortController()
  const both = AbortSignal.any([signal, failed.signal])
  const orFail = (doing: Promise<void>): Promise<void> =>
    doing.catch((error: unknown) => {
      failed.abort()
      throw error
    })
  const guest = {
    id: record.id,
    userId: record.host.userId,
    path: host.savedStates.paths(record.id).published,
    memoryMib: record.desired.compute.memoryMib,
    ...given({ tapDevice: intent.tap?.device }),
  }
  const [restored, verified] = await Promise.allSettled([
    orFail(host.monitors[record.monitor].ensureRestored(guest, both)),
    // A read of a pool that hangs keeps its descriptor until it returns, and must not keep the step.
    orFail(abortable(host.savedStates.verify(record.id, both), signal)),
  ])
  const errors: unknown[] = [verified, restored].flatMap((one) =>
    one.status === 'rejected' ? [one.reason] : [],
  )
  if (errors.length === 0) return
  // The other one was only asked to stop.
  const error = errors.find((one) => one instanceof HostFault) ?? errors[0]
  const mustNotRun = error instanceof HostFault && UNTRUSTED.has(error.code)
  if (mustNotRun) await host.units.ensureStopped(record.id, signal)
  throw error
}

/** Faults of a restore after which the guest in the monitor is not as it was saved. */
const UNTRUSTED: ReadonlySet<string> = new Set(['saved_state_corrupt', 'restore_failed'])
