import type { Executor } from './executor.ts'

/** Afterwards neither disk nor seed of the VM is left. */
export const removeDisk: Executor<'storage.remove-disk'> = (_step, { host, record }) =>
  host.storage.remove(record.id)
