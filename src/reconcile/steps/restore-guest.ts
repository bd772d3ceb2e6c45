import { HostFault } from '../../core/errors.ts'
import type { Executor } from './executor.ts'

/**
 * Afterwards the monitor has the saved guest whole, standing still, and its memory is what was written. The memory is
 * read a second time beside the monitor, which cannot tell whether it is damaged. Where one of
 * both fails nobody waits for the other. A guest that is not as it was saved ends with its unit: nothing shall ever tell it to
 * go on.
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
  // The other was only told to stop.
  const error = errors.find((one) => one instanceof HostFault) ?? errors[0]
  const isOver = error instanceof HostFault && ENDS.has(error.code)
  if (isOver) await host.units.ensureStopped(record.id, signal)
  throw error
}

const ENDS: ReadonlySet<string> = new Set(['saved_state_corrupt', 'restore_failed'])
