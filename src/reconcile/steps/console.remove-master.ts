import type { Executor } from './executor.ts'

/** Afterwards the descriptor store holds no master of the VM, and its console session goes on without one. */
export const removeMaster: Executor<'console.remove-master'> = (_step, { host, record }) =>
  host.consoles.removeMaster(record.id)
