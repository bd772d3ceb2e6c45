import type { Executor } from './executor.ts'

/** Afterwards no process of the VM is left and systemd has forgotten its unit. */
export const ensureStopped: Executor<'unit.ensure-stopped'> = (_step, { host, record, signal }) =>
  host.units.ensureStopped(record.id, signal)
