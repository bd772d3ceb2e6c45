import type { Executor } from './executor.ts'

/** Afterwards nothing of the VM's console is left. */
export const removeConsole: Executor<'console.remove'> = (_step, { host, record }) =>
  host.consoles.remove(record.id)
