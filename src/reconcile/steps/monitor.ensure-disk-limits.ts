import type { Executor } from './executor.ts'

export const ensureDiskLimits: Executor<'monitor.ensure-disk-limits'> = (step, { host, record, signal }) =>
  host.monitor.ensureDiskLimits(record.id, step.limits, signal)
