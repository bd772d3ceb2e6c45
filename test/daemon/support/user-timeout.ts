import { ErrnoError } from '../../../src/host/ffi/errno-error.ts'
import { errno } from '../../../src/host/ffi/koffi.ts'
import { getsockopt } from '../../../src/host/ffi/socket-calls.ts'

/** linux/in.h and linux/tcp.h */
const IPPROTO_TCP = 6
const TCP_USER_TIMEOUT = 18

/**
 * Returns how many milliseconds a connection lives on without an acknowledgement; 0 if the kernel's own bound counts.
 * Throws ErrnoError.
 */
export function userTimeout(fd: number): number {
  const value = Buffer.alloc(4)
  if (getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, value, [value.length]) !== 0)
    throw new ErrnoError('getsockopt TCP_USER_TIMEOUT', errno())
  return value.readUInt32LE()
}
