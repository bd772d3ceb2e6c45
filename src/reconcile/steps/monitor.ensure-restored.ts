import { HostFault } from '../../core/errors.ts'
import type { Executor } from './executor.ts'

/**
 * Afterwards the monitor has the saved guest whole, standing still, and its memory is what was written. The memory is
 * read a second time beside the monitor, which cannot tell whether it is damaged. A guest that is not as it was saved
 * ends with its unit: nothing shall ever tell it to go on.
 */
export const ensureRestored: Executor<'monitor.ensure-restored'> = async (_step, context) => {
  const { host, record, signal } = context
  const [restored, verified] = await Promise.allSettled([
    host.monitor.ensureRestored(record.id, signal),
    host.savedStates.verify(record.id, signal),
  ])
  const failed = [verified, restored].find(({ status }) => status === 'rejected')
  if (failed?.status !== 'rejected') return
  const error: unknown = failed.reason
  const isOver = error instanceof HostFault && ENDS.has(error.code)
  if (isOver) await host.units.ensureStopped(record.id, signal)
  throw error
}

const ENDS: ReadonlySet<string> = new Set(['saved_state_corrupt', 'restore_failed'])
