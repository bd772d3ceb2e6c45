import type { Executor } from './executor.ts'

/** Afterwards the VM's console master is in systemd's descriptor store, as read back from it. */
export const ensureMaster: Executor<'console.ensure-master'> = async (_step, { host, record }) => {
  await host.consoles.ensureMaster(record.id)
}
