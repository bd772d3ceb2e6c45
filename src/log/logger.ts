import pino from 'pino'
import { contextLog } from './log.ts'
import { scrubLine, scrub } from './scrub.ts'
import type { LogLevel, Log } from './log.ts'
import { errorChain } from './error-chain.ts'

type LogOptions = {
  readonly level: LogLevel
  /** Gets each finished line with its newline; by default it writes to standard output at once. */
  readonly write?: (line: string) => void
  /** Puts the syslog priority before each line, so that `journalctl -p warning` can filter (sd-daemon(3)). */
  readonly priorityPrefix?: boolean
}

/** The `<N>` of sd-daemon(3) for each level. The audit trail is all of "notice": `journalctl -p notice..notice`. */
const PRIORITY: Readonly<Record<string, number>> = { debug: 7, info: 6, audit: 5, warn: 4, error: 3 }

/** Above every level of pino, so that none hides it (pino, "customLevels"). */
const AUDIT_LEVEL = 100

/**
 * The daemon's logger: one JSON object a line, with the fields of its context ({@link contextLog}). An `error` field
 * becomes its cause chain and code. Every line passes {@link scrubLine} on its way out.
 */
export function createLog(options: LogOptions): Log {
  const write = options.write ?? standardOutput()
  const prefixed = options.priorityPrefix === true
  const lines = pino(
    {
      level: options.level,
      customLevels: { audit: AUDIT_LEVEL },
      base: { service: 'vmhostd' },
      messageKey: 'message',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { error: describeError },
    },
    { write: (line) => write(prefixed ? withPriority(scrubLine(line)) : scrubLine(line)) },
  )
  return contextLog({
    isEnabled: (level) => lines.isLevelEnabled(level),
    write: (level, fields, message) => lines[level](fields, message),
  })
}

function withPriority(line: string): string {
  const level = /"level":"(\w+)"/.exec(line)?.[1] ?? 'info'
  return `<${PRIORITY[level] ?? PRIORITY['info']}>${line}`
}

/** Writes synchronously, so that the line that explains a crash is out before the crash. */
function standardOutput(): (line: string) => void {
  const destination = pino.destination({ dest: 1, sync: true })
  // A reader that closed its end (`vmhostd serve | head`) must not end a daemon that owns guests' consoles.
  destination.on('error', () => {})
  return (line) => destination.write(line)
}

/** Returns an error as a log line shows it: the cause chain, the code if it has one, and a stack only for a bug. */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: scrub(errorChain(error)) }
  const code: unknown = Reflect.get(error, 'code')
  return {
    name: error.name,
    message: scrub(errorChain(error)),
    ...(typeof code === 'string' ? { code } : { stack: stackOf(error) }),
  }
}

/**
 * Returns the frames of a bug, of which V8 keeps the first ten. An expected failure carries a code (a HostFault, an
 * errno) and needs no frames.
 */
function stackOf(error: Error): readonly string[] {
  return (error.stack ?? '')
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    .map((line) => line.trim())
}
