import type { Executor } from './executor.ts'

/** Afterwards the VM's device is gone; a device of someone else stays. */
export const removeTap: Executor<'network.remove-tap'> = (_step, { host, record }) =>
  host.taps.remove(record.host.device, record.id)
