import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { HostFault } from '../core/errors.ts'
import { errorChain } from './error-chain.ts'
import type { OperationId } from '../core/ids.ts'

/** The logger that rooms use: one line with named fields. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /**
   * Writes a line of the audit trail: who asked for what, and what came of it. No level of the configuration hides it.
   */
  audit(fields: object, message: string): void
  /** Returns a logger whose every line carries `fields`. */
  child(fields: object): Log
}

/** Swallows everything; for tests and tools. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  audit() {},
  child: () => silentLog,
}

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

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** A line has a level, or belongs to the audit trail. */
export type LineKind = LogLevel | 'audit'

/** The output for finished lines. */
type LogSink = {
  readonly isEnabled: (level: LineKind) => boolean
  readonly write: (level: LineKind, fields: object, message: string) => void
}

/**
 * Returns a log whose lines have the fields of their context, of their logger and their own. Of fields with the same
 * name, the last one counts.
 */
export function contextLog(sink: LogSink, bound: object = {}): Log {
  const line = (level: LineKind) =>
    sink.isEnabled(level)
      ? (fields: object, message: string): void =>
          sink.write(level, { ...logContext(), ...bound, ...fields }, message)
      : (): void => {}
  return {
    debug: line('debug'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
    audit: line('audit'),
    child: (fields) => contextLog(sink, { ...bound, ...fields }),
  }
}

/**
 * Returns an id for one accepted mutation: `op-`, the time in milliseconds as 12 hexadecimal digits, and 12 random
 * ones. Ids sort by time, so a log and a list of operations are in order.
 */
export function newOperationId(nowMs: number = Date.now()): OperationId {
  const time = nowMs.toString(16).padStart(12, '0')
  // The last group of a UUID is random (RFC 9562, section 5.4). Node draws many of them at once.
  return `op-${time}${randomUUID().slice(-12)}` as OperationId
}

/** Logs a fault that the caller continues after; throws any other error, which is a bug. */
export function warnOfFault(log: Log, error: unknown, message: string, fields: object = {}): void {
  if (!(error instanceof HostFault)) throw error
  log.warn({ ...fields, code: error.code, error: errorChain(error) }, message)
}
