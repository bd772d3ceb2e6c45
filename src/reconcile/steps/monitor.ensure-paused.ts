import type { Executor } from './executor.ts'

/** Afterwards the guest's vCPUs stand still. */
export const ensurePaused: Executor<'monitor.ensure-paused'> = (_step, { host, record, signal }) =>
  host.monitor.ensurePaused(record.id, signal)
