/**
 * TCP connections whose packets have a mark (SO_MARK, socket(7)), which node:net cannot set. Each throws ErrnoError.
 */
import { closeSync } from 'node:fs'
import { constants } from 'node:os'
import { parseAddress } from '../../core/network/address.ts'
import { assert } from '../../lib/assert.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'
import {
  connect,
  getsockopt,
  setsockopt,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  socket,
  SOL_SOCKET,
} from '../ffi/socket-calls.ts'

/** asm-generic/socket.h and linux/socket.h; the same on x86-64 and arm64. */
const AF_INET = 2
const AF_INET6 = 10
const SO_ERROR = 4
const SO_MARK = 36
/** struct sockaddr_in and struct sockaddr_in6: family, port and, for IPv6, 4 bytes of flow come before the address. */
const IPV4 = { family: AF_INET, bytes: 16, addressAt: 4 }
const IPV6 = { family: AF_INET6, bytes: 28, addressAt: 8 }

const getpeername = library('libc.so.6').func(
  'int getpeername(int fd, _Out_ void *address, _Inout_ uint32_t *length)',
)

export type MarkedTarget = { readonly address: string; readonly port: number; readonly mark: number }

/** Returns the descriptor of a socket that is connecting, and does not block. The caller closes it. */
export function beginConnection({ address, port, mark }: MarkedTarget): number {
  const bytes = parseAddress(address)
  assert(bytes !== undefined, `${address} is not an address`)
  const shape = bytes.length === 4 ? IPV4 : IPV6
  const fd = socket(shape.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
  if (fd < 0) throw new ErrnoError('open a socket', errno())
  const target = Buffer.alloc(shape.bytes)
  target.writeUInt16LE(shape.family, 0)
  target.writeUInt16BE(port, 2)
  target.set(bytes, shape.addressAt)
  const isMarked = setsockopt(fd, SOL_SOCKET, SO_MARK, Uint32Array.of(mark), 4) === 0
  if (isMarked && connect(fd, target, target.length) === 0) return fd
  const code = errno()
  if (isMarked && code === constants.errno.EINPROGRESS) return fd
  closeSync(fd)
  throw new ErrnoError(isMarked ? `connect to port ${port}` : 'mark a socket', code)
}

/** Returns whether the socket is connected by now; throws why it will not be. */
export function isConnected(fd: number, port: number): boolean {
  const failed = new Uint32Array(1)
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, failed, [4]) !== 0)
    throw new ErrnoError('getsockopt SO_ERROR', errno())
  if (failed[0] !== undefined && failed[0] !== 0) throw new ErrnoError(`connect to port ${port}`, failed[0])
  if (getpeername(fd, Buffer.alloc(IPV6.bytes), [IPV6.bytes]) === 0) return true
  const code = errno()
  if (code === constants.errno.ENOTCONN) return false
  throw new ErrnoError('getpeername', code)
}
