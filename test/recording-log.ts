import { contextLog } from '../src/log/log.ts'
import type { Log } from '../src/log/log.ts'

export type LogLine = { readonly level: string; readonly message: string } & Record<string, unknown>

/** Records log lines, with the fields of their contexts and of the loggers that they came through. */
export function recordingLog(): { readonly log: Log; readonly lines: LogLine[] } {
  const lines: LogLine[] = []
  const log = contextLog({
    isEnabled: () => true,
    write: (level, fields, message) => void lines.push({ ...fields, level, message }),
  })
  return { log, lines }
}
