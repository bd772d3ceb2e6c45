import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { killGroup, track } from './interrupt.ts'

export interface RunOptions {
  cwd?: string
  env?: NodeJS.ProcessEnv
  /** Standard input of the command; empty (end of file at once) if absent. */
  input?: string | Buffer
  /** The command's whole process group is killed after this many milliseconds. */
  timeoutMs?: number
  /** Called with each piece of output, both streams in the order they arrive. */
  onOutput?: (chunk: Buffer) => void
}

export interface RunResult {
  /** Exit status; 128 + N after signal N, 124 after a timeout, 127 if the command does not exist. */
  code: number
  stdout: string
  stderr: string
  timedOut: boolean
}

/** Thrown when a command fails that was expected to succeed. */
export class CommandFailed extends Error {
  override name = 'CommandFailed'
  readonly result: RunResult

  constructor(argv: readonly string[], result: RunResult) {
    const why = result.timedOut ? 'ran into its time limit' : `ended with status ${result.code}`
    const tail = `${result.stderr}\n${result.stdout}`.trim().split('\n').slice(-12).join('\n')
    super(`\`${argv.join(' ').slice(0, 200)}\` ${why}${tail === '' ? '' : `\n${tail}`}`)
    this.result = result
  }
}

/** Runs a command to its end and returns its output. Never throws for a bad exit status. */
export function run(argv: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  const [file = '', ...args] = argv
  const child = spawn(file, args, {
    cwd: options.cwd,
    env: options.env ?? process.env,
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  track(child, 'group')
  const out = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (chunk: Buffer) => {
      out[name].push(chunk)
      options.onOutput?.(chunk)
    })
  }
  // A command may end without reading its input; that is not a failure.
  child.stdin.on('error', () => {})
  child.stdin.end(options.input ?? '')
  let timedOut = false
  const timer =
    options.timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true
          killGroup(child)
        }, options.timeoutMs)
  return new Promise((resolve) => {
    const settle = (code: number) => {
      clearTimeout(timer)
      const text = (chunks: Buffer[]) => Buffer.concat(chunks).toString()
      resolve({ code, stdout: text(out.stdout), stderr: text(out.stderr), timedOut })
    }
    child.on('error', (error) => {
      out.stderr.push(Buffer.from(`${error.message}\n`))
      settle(127)
    })
    child.on('close', (code, signal) => {
      if (timedOut) settle(124)
      else settle(code ?? 128 + constants.signals[signal ?? 'SIGKILL'])
    })
  })
}

/** Like {@link run}, but throws {@link CommandFailed} unless the status is 0. Returns standard output. */
export async function runChecked(argv: readonly string[], options: RunOptions = {}): Promise<string> {
  const result = await run(argv, options)
  if (result.code !== 0) throw new CommandFailed(argv, result)
  return result.stdout
}

/** Returns what a program says of its version; empty if there is none. */
export const versionOf = async (program: string): Promise<string> => {
  const { code, stdout } = await run([program, '--version'])
  return code === 0 ? stdout : ''
}

export interface AttachOptions {
  cwd?: string
  env?: NodeJS.ProcessEnv
  /** Called with the process id once the command runs. */
  onStart?: (pid: number) => void
  /** Ctrl-C ends this process too. Otherwise a person works with the command, and it decides how to react. */
  isUnattended?: true
}

/** Runs a command on our own terminal (its input, output and signals) and returns its exit status. */
export function runAttached(argv: readonly string[], options: AttachOptions = {}): Promise<number> {
  const [file = '', ...args] = argv
  const child = spawn(file, args, {
    cwd: options.cwd,
    env: options.env ?? process.env,
    stdio: 'inherit',
  })
  track(child, options.isUnattended === true ? 'attached' : 'interactive')
  if (child.pid !== undefined) options.onStart?.(child.pid)
  return new Promise((resolve) => {
    child.on('error', (error) => {
      console.error(error.message)
      resolve(127)
    })
    child.on('close', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']))
  })
}
