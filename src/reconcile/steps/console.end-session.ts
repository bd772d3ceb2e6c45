import type { Executor } from './executor.ts'

/** Afterwards the console session is over and has no master; its output is kept. */
export const endSession: Executor<'console.end-session'> = (_step, { host, record }) =>
  host.consoles.endSession(record.id)
