import { ErrnoError } from '../../../src/host/ffi/errno-error.ts'
import { errno, library } from '../../../src/host/ffi/koffi.ts'

/** linux/in.h and linux/tcp.h */
const IPPROTO_TCP = 6
const TCP_USER_TIMEOUT = 18

const getsockopt = library('libc.so.6').func(
  'int getsockopt(int fd, int level, int option, _Out_ void *value, _Inout_ uint32_t *length)',
)

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
