import { logContext } from './log-context.ts'
import type { Log } from './log.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** The output for finished lines. */
export type LogSink = {
  readonly isEnabled: (level: LogLevel) => boolean
  readonly write: (level: LogLevel, fields: object, message: string) => void
}

/**
 * Returns a log whose lines have the fields of their context, of their logger and their own. Of fields with the same
 * name, the last one counts.
 */
export function contextLog(sink: LogSink, bound: object = {}): Log {
  const line = (level: LogLevel) =>
    sink.isEnabled(level)
      ? (fields: object, message: string): void =>
          sink.write(level, { ...logContext(), ...bound, ...fields }, message)
      : (): void => {}
  return {
    debug: line('debug'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
    child: (fields) => contextLog(sink, { ...bound, ...fields }),
  }
}
