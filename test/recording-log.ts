import type { Log } from '../src/log/log.ts'

export type LogLine = { readonly level: string; readonly message: string } & Record<string, unknown>

/** A log that keeps its lines, with the fields of the loggers that they came through. */
export function recordingLog(): { readonly log: Log; readonly lines: LogLine[] } {
  const lines: LogLine[] = []
  const logWith = (bound: object): Log => {
    const line =
      (level: string) =>
      (fields: object, message: string): void =>
        void lines.push({ ...bound, ...fields, level, message })
    return {
      debug: line('debug'),
      info: line('info'),
      warn: line('warn'),
      error: line('error'),
      child: (fields) => logWith({ ...bound, ...fields }),
    }
  }
  return { log: logWith({}), lines }
}
