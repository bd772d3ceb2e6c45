import { ErrnoError } from './errno-error.ts'
import { errno, library } from './koffi.ts'

/** The same on x86-64 and arm64. The C library has a function for it only from glibc 2.36 on. */
const SYS_PIDFD_OPEN = 434

const syscall = library('libc.so.6').func('long syscall(long number, int pid, unsigned int flags)')

/**
 * Returns a descriptor of a process, closed on exec, which is readable once the process has ended (pidfd_open(2)).
 * Throws ErrnoError; ESRCH if there is no such process.
 */
export function openPidfd(pid: number): number {
  const fd = syscall(SYS_PIDFD_OPEN, pid, 0) as number
  if (fd < 0) throw new ErrnoError('pidfd_open', errno())
  return fd
}
