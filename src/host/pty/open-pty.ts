import { closeSync, constants, openSync } from 'node:fs'
import { ErrnoError } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'
import type { WindowSize } from '../../core/console/console-viewer.ts'

/** linux/ioctls.h, asm-generic/fcntl.h; the same on x86-64 and arm64. */
const TIOCSWINSZ = 0x5414
const O_CLOEXEC = 0o2000000
const TCSANOW = 0

/** struct termios of glibc has 60 bytes. Its second word has the output modes (termios(3)). */
const TERMIOS_BYTES = 64
const OUTPUT_MODES_AT = 4
/** Room for "/dev/pts/" and a number below the kernel's bound of 2^20 ptys (pts(4)). */
const PATH_BYTES = 64

const libc = library('libc.so.6')
const posix_openpt = libc.func('int posix_openpt(int flags)')
const grantpt = libc.func('int grantpt(int master)')
const unlockpt = libc.func('int unlockpt(int master)')
const ptsname_r = libc.func('int ptsname_r(int master, char *path, size_t size)')
const tcgetattr = libc.func('int tcgetattr(int fd, void *modes)')
const tcsetattr = libc.func('int tcsetattr(int fd, int when, const void *modes)')
const cfmakeraw = libc.func('void cfmakeraw(void *modes)')
const tcgetpgrp = libc.func('int tcgetpgrp(int fd)')
const ioctl = libc.func('int ioctl(int fd, unsigned long request, ...)')

/** Makes a pty and returns its master: non-blocking, closed on exec. Throws ErrnoError. */
export function openMaster(): number {
  const flags = constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK | O_CLOEXEC
  const master = posix_openpt(flags) as number
  if (master < 0) throw new ErrnoError('posix_openpt', errno())
  try {
    if (grantpt(master) !== 0) throw new ErrnoError('grantpt', errno())
    if (unlockpt(master) !== 0) throw new ErrnoError('unlockpt', errno())
    return master
  } catch (error) {
    closeSync(master)
    throw error
  }
}

/** Returns the path of a master's slave. Throws ErrnoError; ENOTTY if the descriptor is not a pty master. */
export function slavePath(master: number): string {
  const path = Buffer.alloc(PATH_BYTES)
  const status = ptsname_r(master, path, path.length) as number
  if (status !== 0) throw new ErrnoError('ptsname_r', status)
  return path.toString('latin1', 0, path.indexOf(0))
}

/** Opens a slave, but not as this process's controlling terminal. */
export const openSlave = (path: string): number => openSync(path, constants.O_RDWR | constants.O_NOCTTY)

/**
 * Makes bytes pass unchanged in both directions. A guest has its own line discipline. A second one would echo input
 * before the monitor runs, and write each line end twice. Throws ErrnoError.
 */
export function makeRaw(slave: number): void {
  const modes = Buffer.alloc(TERMIOS_BYTES)
  if (tcgetattr(slave, modes) !== 0) throw new ErrnoError('tcgetattr', errno())
  cfmakeraw(modes)
  // QEMU switches output processing (OPOST) on again, so all other output modes are switched off one by one.
  modes.writeUInt32LE(0, OUTPUT_MODES_AT)
  if (tcsetattr(slave, TCSANOW, modes) !== 0) throw new ErrnoError('tcsetattr', errno())
}

/** Sets the size of the terminal's window. Either end of the pty will do. Throws ErrnoError. */
export function setWindowSize(fd: number, { cols, rows }: WindowSize): void {
  const winsize = Uint16Array.of(rows, cols, 0, 0)
  if (ioctl(fd, TIOCSWINSZ, 'void *', winsize) !== 0) throw new ErrnoError('ioctl TIOCSWINSZ', errno())
}

/** Whether a session runs on the slave of this master, as its controlling terminal. */
export const hasSession = (master: number): boolean => (tcgetpgrp(master) as number) > 0
