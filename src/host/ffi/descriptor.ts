/** Functions for file descriptors that node:fs does not offer. */
import { constants as fsConstants } from 'node:fs'
import { constants } from 'node:os'
import { ErrnoError } from './errno-error.ts'
import { errno, library } from './koffi.ts'

/** asm-generic/fcntl.h and linux/fcntl.h; the same on x86-64 and arm64. */
const F_SETFD = 2
const F_GETFL = 3
const F_SETFL = 4
const F_DUPFD_CLOEXEC = 1030
const FD_CLOEXEC = 1
const O_CLOEXEC = 0o2000000
/** The first descriptor after standard input, output and error. */
const FIRST_FREE_FD = 3

const libc = library('libc.so.6')
const fcntl = libc.func('int fcntl(int fd, int command, ...)')
const pipe2 = libc.func('int pipe2(int *ends, int flags)')

/** Closes a descriptor in programs that are run later. Throws ErrnoError. */
export function setCloseOnExec(fd: number): void {
  if (fcntl(fd, F_SETFD, 'int', FD_CLOEXEC) < 0) throw new ErrnoError(`fcntl F_SETFD ${fd}`, errno())
}

/** Makes reads and writes non-blocking, through every descriptor of the same open file. Throws ErrnoError. */
export function setNonBlocking(fd: number): void {
  const flags = fcntl(fd, F_GETFL) as number
  if (flags < 0) throw new ErrnoError(`fcntl F_GETFL ${fd}`, errno())
  if (fcntl(fd, F_SETFL, 'int', flags | fsConstants.O_NONBLOCK) < 0)
    throw new ErrnoError(`fcntl F_SETFL ${fd}`, errno())
}

/** Returns another descriptor of the same open file. Throws ErrnoError. */
export function duplicate(fd: number): number {
  const copy = fcntl(fd, F_DUPFD_CLOEXEC, 'int', FIRST_FREE_FD) as number
  if (copy < 0) throw new ErrnoError(`fcntl F_DUPFD_CLOEXEC ${fd}`, errno())
  return copy
}

/** Makes a pipe, closed on exec. Throws ErrnoError. */
export function openPipe(): { readonly readEnd: number; readonly writeEnd: number } {
  const ends = new Int32Array(2)
  if (pipe2(ends, O_CLOEXEC) < 0) throw new ErrnoError('pipe2', errno())
  const [readEnd, writeEnd] = ends
  if (readEnd === undefined || writeEnd === undefined) throw new ErrnoError('pipe2', constants.errno.EBADF)
  return { readEnd, writeEnd }
}
