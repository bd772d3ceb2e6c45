import type { Executor } from './executor.ts'

/** Afterwards the guest's vCPUs run; its clock stood still as long as they did. */
export const ensureRunning: Executor<'monitor.ensure-running'> = async (_step, { host, record, signal }) => {
  await host.monitor.ensureRunning(record.id, signal)
  host.monitor.tellTime(record.id)
}
