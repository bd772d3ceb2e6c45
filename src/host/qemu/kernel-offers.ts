import { existsSync, readFileSync } from 'node:fs'
import { errno, library } from '../ffi/koffi.ts'
import { hasErrno } from '../ffi/errno-error.ts'

const IO_URING_SETUP = 425
const EFAULT = 14

const syscall = library('libc.so.6').func('long syscall(long number, long entries, void *parameters)')

/** Abilities of this kernel that a monitor uses for a guest with KVM. */
export type KernelOffers = {
  /** Packets of a guest pass through a thread of the kernel instead of its monitor. */
  readonly vhostNet: boolean
  /** Requests of a guest's disk need no thread of its monitor. */
  readonly ioUring: boolean
}

/** Looks at the kernel. An operator forbids io_uring to monitors with kernel.io_uring_disabled (sysctl/kernel.rst). */
export const kernelOffers = (): KernelOffers => ({
  vhostNet: existsSync('/dev/vhost-net'),
  ioUring: isFreeToAll() && hasIoUring(),
})

/** Returns false if the kernel keeps io_uring for some processes, or for none. Before Linux 6.6 it cannot. */
function isFreeToAll(): boolean {
  try {
    return readFileSync('/proc/sys/kernel/io_uring_disabled', 'utf8').trim() === '0'
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return true
    throw error
  }
}

/** A kernel with io_uring reads the parameters of io_uring_setup(2), and here cannot. Any other has no such call. */
const hasIoUring = (): boolean => syscall(IO_URING_SETUP, 1, null) === -1 && errno() === EFAULT
