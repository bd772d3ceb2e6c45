import { AsyncLocalStorage } from 'node:async_hooks'

/** Fields that say what a line follows from, such as `vm_id`, `operation_id` and `step`. */
export type LogContext = Readonly<Record<string, unknown>>

const contexts = new AsyncLocalStorage<LogContext>()

/** Returns the fields that each line has now. */
export const logContext = (): LogContext => contexts.getStore() ?? {}

/**
 * Runs a task with these fields, and none of its caller's. Each line that follows from the task has them, also after a
 * wait.
 */
export const inLogContext = <T>(fields: LogContext, task: () => T): T => contexts.run(fields, task)

/** Runs a task with these fields in addition to its caller's. */
export const addToLogContext = <T>(fields: LogContext, task: () => T): T =>
  contexts.run({ ...logContext(), ...fields }, task)

/**
 * Opens something that outlives the first task that needs it, such as a connection. Its later lines belong to no
 * operation.
 */
export const outsideLogContext = <T>(open: () => T): T => inLogContext({}, open)
