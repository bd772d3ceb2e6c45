import { HostFault } from '../../core/errors.ts'
import type { Executor } from './executor.ts'

/**
 * Ensures that the monitor has the complete guest, paused, and that its memory is what was written. The memory is read
 * a second time beside the monitor, because the monitor cannot detect damage. If one of the two fails, the other is not
 * waited for. A guest that is not as it was saved ends with its unit, and must never be resumed.
 */
export const restoreGuest: Executor<'monitor.ensure-restored'> = async (_step, context) => {
  const { host, record, signal } = context
  const failed = new AbortController()
  const both = AbortSignal.any([signal, failed.signal])
  const orFail = (doing: Promise<void>): Promise<void> =>
    doing.catch((error: unknown) => {
      failed.abort()
      throw error
    })
  const [restored, verified] = await Promise.allSettled([
    orFail(host.monitor.ensureRestored(record.id, both)),
    orFail(host.savedStates.verify(record.id, both)),
  ])
  const errors: unknown[] = [verified, restored].flatMap((one) =>
    one.status === 'rejected' ? [one.reason] : [],
  )
  if (errors.length === 0) return
  // The other one was only asked to stop.
  const error = errors.find((one) => one instanceof HostFault) ?? errors[0]
  const isOver = error instanceof HostFault && ENDS.has(error.code)
  if (isOver) await host.units.ensureStopped(record.id, signal)
  throw error
}

const ENDS: ReadonlySet<string> = new Set(['saved_state_corrupt', 'restore_failed'])
