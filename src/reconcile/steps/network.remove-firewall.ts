import type { Executor } from './executor.ts'

/** Afterwards no element of the table names the VM's device. */
export const removeFirewall: Executor<'network.remove-firewall'> = (_step, { host, record }) =>
  host.firewall.removeGuest(record.host.device)
