import { closeSync, constants as fileConstants, existsSync } from 'node:fs'
import { Socket } from 'node:net'
import { constants } from 'node:os'
import { join } from 'node:path'
import { openPipe } from '../ffi/descriptor.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { library } from '../ffi/koffi.ts'
import { openPidfd } from '../ffi/pidfd.ts'
import { watchDescriptor } from '../ffi/watch-descriptor.ts'

export type StartOptions = {
  /** The directories in which a program without a slash in its name is searched for. */
  readonly path: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** Whether standard input is a pipe, and not /dev/null. */
  readonly takesInput: boolean
}

export type StartedProgram = {
  /** Also the id of its process group and its session. */
  readonly pid: number
  readonly stdin?: Socket
  readonly stdout: Socket
  readonly stderr: Socket
  /** Resolves when the process has ended. The wait alone does not keep Node running. */
  readonly ended: Promise<ExitStatus>
}

export type ExitStatus = { readonly code: number } | { readonly signal: string }

/** spawn.h of glibc; the same on x86-64 and arm64. Both structures have room to spare. */
const POSIX_SPAWN_SETSIGDEF = 0x04
const POSIX_SPAWN_SETSIGMASK = 0x08
const POSIX_SPAWN_SETSID = 0x80
const ATTRIBUTES_BYTES = 512
const ACTIONS_BYTES = 256
const SIGNAL_SET_BYTES = 128

const WNOHANG = 1

const libc = library('libc.so.6')
const posixSpawn = libc.func(
  'int posix_spawn(_Out_ int *pid, const char *path, const void *actions, const void *attributes, const char **argv, const char **environment)',
)
const initActions = libc.func('int posix_spawn_file_actions_init(void *actions)')
const destroyActions = libc.func('int posix_spawn_file_actions_destroy(void *actions)')
const addOpen = libc.func(
  'int posix_spawn_file_actions_addopen(void *actions, int fd, const char *path, int flags, unsigned int mode)',
)
const addDup2 = libc.func('int posix_spawn_file_actions_adddup2(void *actions, int fd, int as)')
const addChdir = libc.func('int posix_spawn_file_actions_addchdir_np(void *actions, const char *path)')
const initAttributes = libc.func('int posix_spawnattr_init(void *attributes)')
const destroyAttributes = libc.func('int posix_spawnattr_destroy(void *attributes)')
const setFlags = libc.func('int posix_spawnattr_setflags(void *attributes, short flags)')
const setSignalsToDefault = libc.func('int posix_spawnattr_setsigdefault(void *attributes, const void *set)')
const setSignalMask = libc.func('int posix_spawnattr_setsigmask(void *attributes, const void *set)')
const fillSignalSet = libc.func('int sigfillset(void *set)')
const waitpid = libc.func('int waitpid(int pid, _Out_ int *status, int options)')

/**
 * Starts a program in a session of its own, in the directory `/`.
 *
 * Node starts programs with fork(2), which copies the page tables of the whole daemon, and makes each of its pages
 * fault once more. This took 14 ms of the event loop for a daemon of 130 MiB. posix_spawn(3) shares the memory until
 * the program runs, and takes less than a millisecond whatever the size.
 *
 * Throws ErrnoError; ENOENT or EACCES if the program is not there or may not be run.
 */
export function startProgram(argv: readonly [string, ...string[]], options: StartOptions): StartedProgram {
  const file = found(argv[0], options.path)
  const childEnds: number[] = []
  const ownEnds: number[] = []
  try {
    for (const as of options.takesInput ? [0, 1, 2] : [1, 2]) {
      const { readEnd, writeEnd } = openPipe()
      childEnds.push(as === 0 ? readEnd : writeEnd)
      ownEnds.push(as === 0 ? writeEnd : readEnd)
    }
    const pid = spawned(file, argv, options, childEnds)
    const ended = endOf(pid)
    const [stderr, stdout, stdin] = ownEnds.splice(0).toReversed()
    return {
      pid,
      ended,
      stdout: new Socket({ fd: stdout, readable: true, writable: false }),
      stderr: new Socket({ fd: stderr, readable: true, writable: false }),
      ...(stdin !== undefined && { stdin: new Socket({ fd: stdin, readable: false, writable: true }) }),
    }
  } finally {
    for (const fd of [...childEnds, ...ownEnds]) closeSync(fd)
  }
}

/** Returns the path of a program; its bare name if no directory has it. */
const found = (name: string, path: readonly string[]): string =>
  name.includes('/')
    ? name
    : (path.map((folder) => join(folder, name)).find((one) => existsSync(one)) ?? name)

/** @param childEnds standard input if it is a pipe, then standard output and standard error */
function spawned(
  file: string,
  argv: readonly string[],
  { environment, takesInput }: StartOptions,
  childEnds: readonly number[],
): number {
  const actions = Buffer.alloc(ACTIONS_BYTES)
  const attributes = Buffer.alloc(ATTRIBUTES_BYTES)
  check('posix_spawn_file_actions_init', initActions(actions))
  check('posix_spawnattr_init', initAttributes(attributes))
  try {
    if (!takesInput) check('addopen', addOpen(actions, 0, '/dev/null', fileConstants.O_RDONLY, 0))
    const first = takesInput ? 0 : 1
    for (const [index, fd] of childEnds.entries()) check('adddup2', addDup2(actions, fd, first + index))
    check('addchdir', addChdir(actions, '/'))
    // Node ignores SIGPIPE, and a program would inherit that.
    const every = Buffer.alloc(SIGNAL_SET_BYTES)
    fillSignalSet(every)
    check('setsigdefault', setSignalsToDefault(attributes, every))
    check('setsigmask', setSignalMask(attributes, Buffer.alloc(SIGNAL_SET_BYTES)))
    const flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID
    check('setflags', setFlags(attributes, flags))
    const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
    const pid: [number] = [0]
    check(
      `start ${argv[0]}`,
      posixSpawn(pid, file, actions, attributes, [...argv, null], [...variables, null]),
    )
    return pid[0]
  } finally {
    destroyActions(actions)
    destroyAttributes(attributes)
  }
}

/** The functions of posix_spawn(3) return an errno, and do not set it. */
function check(doing: string, code: number): void {
  if (code !== 0) throw new ErrnoError(doing, code)
}

/** Waits for a child without SIGCHLD: libuv's handler reaps only the children that libuv started. */
function endOf(pid: number): Promise<ExitStatus> {
  const { promise, resolve } = Promise.withResolvers<ExitStatus>()
  let handle: number
  try {
    handle = openPidfd(pid)
  } catch (error) {
    process.kill(-pid, 'SIGKILL')
    waitpid(pid, [0], 0)
    throw error
  }
  const stop = watchDescriptor(handle, () => {
    const status: [number] = [0]
    if ((waitpid(pid, status, WNOHANG) as number) !== pid) return
    stop()
    closeSync(handle)
    resolve(statusIn(status[0]))
  })
  return promise
}

/** Reads a status of waitpid(2): the low 7 bits are a signal, and the next 8 of a process that exited are its code. */
function statusIn(status: number): ExitStatus {
  const signal = status & 0x7f
  if (signal === 0) return { code: (status >> 8) & 0xff }
  const name = Object.entries(constants.signals).find(([, number]) => number === signal)?.[0]
  return { signal: name ?? String(signal) }
}
