import type { Executor } from './executor.ts'

/** Afterwards the guest's vCPUs run. */
export const ensureRunning: Executor<'monitor.ensure-running'> = (_step, { host, record, signal }) =>
  host.monitor.ensureRunning(record.id, signal)
