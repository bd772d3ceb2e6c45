import type { Executor } from './executor.ts'

export const ensureDiskSize: Executor<'monitor.ensure-disk-size'> = (step, { host, record, signal }) =>
  host.monitor.ensureDiskSize(record.id, step.sizeMib, signal)
