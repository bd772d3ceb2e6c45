import type { Socket } from 'node:net'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { ExitError } from './exit-error.ts'
import { startProgram } from './start-program.ts'
import type { Ending } from './exit-error.ts'
import type { ExitStatus, StartedProgram } from './start-program.ts'

/** systemd's own default (systemd.exec(5)). */
const PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** The whole environment of a program. */
const ENVIRONMENT = { PATH: PATH.join(':'), LANG: 'C', LC_ALL: 'C' }

export type RunOptions = {
  /** Written to standard input, which is then closed. Without it standard input is /dev/null. */
  readonly input?: string
  readonly timeoutMs?: number
  /** Kills the program; `run` then rejects with the signal's reason. */
  readonly signal?: AbortSignal
  /** The limit for standard output and for standard error. A program that writes more is killed. */
  readonly outputBytesMax?: number
  /** The exit statuses that are not failures; absent: only 0. */
  readonly okCodes?: readonly number[]
}

export type Finished = { readonly code: number; readonly stdout: string }

/**
 * Runs a program to its end. Takes an argument array, and never uses a shell. It settles only when the program, and
 * every process that shares its output, has ended. So nothing runs on after the caller got an abort.
 *
 * Throws HostFault `tool_missing` if the program is not installed or may not be run. Throws the signal's reason on
 * abort, and otherwise {@link ExitError}, which a driver chains under its own fault.
 */
export async function run(argv: readonly [string, ...string[]], options: RunOptions = {}): Promise<Finished> {
  const { signal, okCodes = [0] } = options
  signal?.throwIfAborted()
  const { ending, stdout, stderr } = await execute(argv, options)
  if (ending.kind === 'exited' && okCodes.includes(ending.code)) return { code: ending.code, stdout }
  if (ending.kind === 'aborted') throw signal?.reason
  throw new ExitError(argv, ending, stderr)
}

type Outcome = { ending: Ending | { readonly kind: 'aborted' }; stdout: string; stderr: string }

async function execute(argv: readonly [string, ...string[]], options: RunOptions): Promise<Outcome> {
  const { input, timeoutMs = limits.toolMs, signal, outputBytesMax = limits.toolOutputBytesMax } = options
  const program = started(argv, input !== undefined)

  /** The reason for which we killed it. The first reason is kept. */
  let killed: Outcome['ending'] | undefined
  const kill = (why: Outcome['ending']): void => {
    killed ??= why
    killGroup(program.pid)
  }
  const tooMuch = (): void => kill({ kind: 'too-much-output', outputBytesMax })
  const stdout = collect(program.stdout, outputBytesMax, tooMuch)
  const stderr = collect(program.stderr, outputBytesMax, tooMuch)
  const deadline = setTimeout(() => kill({ kind: 'deadline', timeoutMs }), timeoutMs)
  const onAbort = (): void => kill({ kind: 'aborted' })
  signal?.addEventListener('abort', onAbort, { once: true })

  // A program that ends without reading its input is judged by its exit status.
  program.stdin?.on('error', () => {})
  program.stdin?.end(input ?? '')

  const [status] = await Promise.all([program.ended, stdout.closed, stderr.closed])
  clearTimeout(deadline)
  signal?.removeEventListener('abort', onAbort)
  program.stdin?.destroy()
  return { ending: killed ?? endingOf(status), stdout: stdout.text(), stderr: stderr.text() }
}

function started(argv: readonly [string, ...string[]], takesInput: boolean): StartedProgram {
  try {
    return startProgram(argv, { path: PATH, environment: ENVIRONMENT, takesInput })
  } catch (error) {
    throw startFault(argv, error)
  }
}

const endingOf = (status: ExitStatus): Ending =>
  'code' in status ? { kind: 'exited', code: status.code } : { kind: 'signalled', signal: status.signal }

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: it ended meanwhile.
  }
}

type Collected = { readonly closed: Promise<void>; readonly text: () => string }

/** Collects a stream up to a bound. Beyond it, calls `onFull` and drops what follows. */
function collect(stream: Socket, bytesMax: number, onFull: () => void): Collected {
  const chunks: Buffer[] = []
  let bytes = 0
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > bytesMax) onFull()
    else chunks.push(chunk)
  })
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  // A pipe that cannot be read any more has no further output.
  stream.on('error', () => {})
  stream.once('close', () => resolve())
  return { closed, text: () => Buffer.concat(chunks).toString('utf8') }
}

function startFault(argv: readonly [string, ...string[]], error: unknown): Error {
  if (hasErrno(error, 'ENOENT', 'EACCES')) {
    return new HostFault('tool_missing', `running ${argv[0]}`, { cause: error })
  }
  return new ExitError(argv, { kind: 'not-started', cause: error as Error }, '')
}
