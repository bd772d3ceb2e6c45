import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { cachePath, slug } from './paths.ts'
import { run } from './process.ts'
import type { RunOptions } from './process.ts'

/** Interval at which a long step reports itself if there is no terminal to redraw a line on. */
const REMINDER_MS = 15_000
const REDRAW_MS = 500
const SHOWN_LOG_LINES = 40
/** Begins the line of a log that has a command. */
const COMMAND_MARK = '$ '

/** The log file of one step: it takes the noisy output, and is shown only if the step fails. */
export interface StepLog {
  readonly file: string
  write(text: string): void
  /** Runs a command with its output in the log; throws unless it ends with status 0. */
  run(argv: readonly string[], options?: RunOptions): Promise<string>
  /** Sets the text after the name in the progress line, for example the number of packages so far. */
  note(text: string): void
}

/** Thrown by {@link step} after a failure has been shown, so that it is not printed a second time. */
export class StepFailed extends Error {
  override name = 'StepFailed'
  /** The last lines that the commands of the step printed. */
  readonly output: string

  constructor(message: string, { cause, output = '' }: { cause?: unknown; output?: string } = {}) {
    super(message, { cause })
    this.output = output
  }
}

function createLog(name: string, note: (text: string) => void): StepLog {
  const file = path.join(cachePath('log'), `${slug(name)}.log`)
  writeFileSync(file, '')
  const write = (text: string) => appendFileSync(file, text)
  return {
    file,
    write,
    note,
    async run(argv, options = {}) {
      write(`${COMMAND_MARK}${argv.join(' ')}\n`)
      const result = await run(argv, {
        ...options,
        onOutput: (chunk) => {
          appendFileSync(file, chunk)
          options.onOutput?.(chunk)
        },
      })
      if (result.code !== 0) {
        const why = result.timedOut ? 'ran into its time limit' : `ended with status ${result.code}`
        throw new Error(`${argv[0]} ${why}`)
      }
      return result.stdout
    },
  }
}

const lastLines = (log: StepLog): string[] =>
  readFileSync(log.file, 'utf8').trimEnd().split('\n').filter(Boolean).slice(-SHOWN_LOG_LINES)

function showFailure(log: StepLog, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error)
  console.error(`    ${message.replaceAll('\n', '\n    ')}`)
  const lines = lastLines(log)
  if (lines.length === 0) return
  console.error(`    last lines of ${log.file}:`)
  for (const line of lines) console.error(`    | ${line}`)
}

/**
 * Runs one step of a tool and shows on standard error that it runs, how long it has been running, and how it ended.
 * A failure prints the step's log and ends as {@link StepFailed}.
 */
export async function step<T>(name: string, body: (log: StepLog) => Promise<T>): Promise<T> {
  const began = performance.now()
  const seconds = () => ((performance.now() - began) / 1000).toFixed(1)
  const live = process.stderr.isTTY
  let note = ''
  const log = createLog(name, (text) => {
    note = ` (${text})`
  })
  const line = () => `  … ${name}${note} ${seconds()} s`
  const timer = setInterval(
    () => process.stderr.write(live ? `\r\x1b[K${line()}` : `${line()}\n`),
    live ? REDRAW_MS : REMINDER_MS,
  )
  if (live) process.stderr.write(line())
  const end = (mark: string, suffix = '') => {
    clearInterval(timer)
    process.stderr.write(`${live ? '\r\x1b[K' : ''}  ${mark} ${name}${note} ${seconds()} s${suffix}\n`)
  }
  try {
    const value = await body(log)
    end('✔')
    return value
  } catch (error) {
    end('✘', ': failed')
    if (!(error instanceof StepFailed)) showFailure(log, error)
    const output = lastLines(log).filter((text) => !text.startsWith(COMMAND_MARK))
    throw new StepFailed(`${name} failed`, { cause: error, output: output.join('\n') })
  }
}
