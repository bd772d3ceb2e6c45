import { AsyncLocalStorage } from 'node:async_hooks'

/** What a line follows from, such as `vm_id`, `operation_id` and `step`. */
export type LogContext = Readonly<Record<string, unknown>>

const contexts = new AsyncLocalStorage<LogContext>()

/** The fields that each line has now. */
export const logContext = (): LogContext => contexts.getStore() ?? {}

/** Runs a task with these fields, and none of its caller's. Each line has them that follows from the task, also after a wait. */
export const inLogContext = <T>(fields: LogContext, task: () => T): T => contexts.run(fields, task)

/** Runs a task with these fields besides its caller's. */
export const addToLogContext = <T>(fields: LogContext, task: () => T): T =>
  contexts.run({ ...logContext(), ...fields }, task)

/** Opens what outlives the task that needs it first, such as a connection: what it reports later follows from no operation. */
export const outsideLogContext = <T>(open: () => T): T => inLogContext({}, open)
