import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { ExitError } from './exit-error.ts'
import type { Ending } from './exit-error.ts'

/** The whole environment of a child. PATH is systemd's own default (systemd.exec(5)). */
const ENVIRONMENT = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LANG: 'C',
  LC_ALL: 'C',
}

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

export type Finished = { readonly code: number; readonly stdout: string; readonly stderr: string }

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
  if (ending.kind === 'exited' && okCodes.includes(ending.code)) return { code: ending.code, stdout, stderr }
  if (ending.kind === 'aborted') throw signal?.reason
  throw new ExitError(argv, ending, stderr)
}

type Outcome = { ending: Ending | { readonly kind: 'aborted' }; stdout: string; stderr: string }

function execute(argv: readonly [string, ...string[]], options: RunOptions): Promise<Outcome> {
  const { input, timeoutMs = limits.toolMs, signal, outputBytesMax = limits.toolOutputBytesMax } = options
  const [program, ...args] = argv
  const { promise, resolve, reject } = Promise.withResolvers<Outcome>()
  const child = spawn(program, args, {
    cwd: '/',
    env: ENVIRONMENT,
    // The program gets its own process group, so that a kill reaches its children too.
    detached: true,
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  })

  /** The reason for which we killed it. The first reason is kept. */
  let killed: Outcome['ending'] | undefined
  const kill = (why: Outcome['ending']): void => {
    killed ??= why
    killGroup(child)
  }
  const tooMuch = (): void => kill({ kind: 'too-much-output', outputBytesMax })
  const stdout = collect(child.stdout, outputBytesMax, tooMuch)
  const stderr = collect(child.stderr, outputBytesMax, tooMuch)
  const deadline = setTimeout(() => kill({ kind: 'deadline', timeoutMs }), timeoutMs)
  const onAbort = (): void => kill({ kind: 'aborted' })
  signal?.addEventListener('abort', onAbort, { once: true })

  // A program that ends without reading its input is judged by its exit status.
  child.stdin?.on('error', () => {})
  child.stdin?.end(input)

  const settle = (): void => {
    clearTimeout(deadline)
    signal?.removeEventListener('abort', onAbort)
  }
  child.once('error', (error) => {
    if (child.pid !== undefined) return
    settle()
    reject(spawnFault(argv, error))
  })
  child.once('close', (code, name) => {
    settle()
    const ending =
      killed ?? (code === null ? ({ kind: 'signalled', signal: String(name) } as const) : exited(code))
    resolve({ ending, stdout: stdout(), stderr: stderr() })
  })
  return promise
}

const exited = (code: number): Ending => ({ kind: 'exited', code })

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // ESRCH: it ended meanwhile.
  }
}

/** Collects a stream up to a bound. Beyond it, calls `onFull` and drops what follows. */
function collect(stream: NodeJS.ReadableStream | null, bytesMax: number, onFull: () => void): () => string {
  const chunks: Buffer[] = []
  let bytes = 0
  stream?.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > bytesMax) onFull()
    else chunks.push(chunk)
  })
  return () => Buffer.concat(chunks).toString('utf8')
}

function spawnFault(argv: readonly [string, ...string[]], error: NodeJS.ErrnoException): Error {
  if (error.code === 'ENOENT' || error.code === 'EACCES') {
    return new HostFault('tool_missing', `running ${argv[0]}`, { cause: error })
  }
  return new ExitError(argv, { kind: 'not-started', cause: error }, '')
}
