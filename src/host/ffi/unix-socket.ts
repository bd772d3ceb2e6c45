/**
 * Functions for Unix sockets that node:net does not offer: they show which process is at the other end before anything
 * is sent.
 */
import { closeSync } from 'node:fs'
import { ErrnoError } from './errno-error.ts'
import { errno, library } from './koffi.ts'

/** asm-generic/socket.h and linux/net.h; the same on x86-64 and arm64. */
const AF_UNIX = 1
const SOCK_STREAM = 1
const SOCK_NONBLOCK = 0o4000
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SO_PEERCRED = 17
/** struct sockaddr_un: the family, then at most 108 bytes of path with the final zero (unix(7)). */
const FAMILY_BYTES = 2
const PATH_BYTES_MAX = 108
/** struct ucred: process, user and group, 4 bytes each. */
const CREDENTIALS_BYTES = 12
const USER_OFFSET = 4

const libc = library('libc.so.6')
const socket = libc.func('int socket(int domain, int type, int protocol)')
const connect = libc.func('int connect(int fd, const void *address, unsigned int length)')
const getsockopt = libc.func(
  'int getsockopt(int fd, int level, int option, _Out_ void *value, _Inout_ uint32_t *length)',
)

/**
 * Returns a descriptor connected to a Unix stream socket. It never waits: EAGAIN if the socket's queue is full
 * (connect(2)). Throws ErrnoError.
 */
export function connectUnix(path: string): number {
  const fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) as number
  if (fd < 0) throw new ErrnoError('socket AF_UNIX', errno())
  const address = addressOf(path)
  if (connect(fd, address, address.length) === 0) return fd
  const code = errno()
  closeSync(fd)
  throw new ErrnoError(`connect ${path}`, code)
}

/** A process, by its numbers when it connected or began to listen. */
export type PeerCredentials = { readonly pid: number; readonly uid: number }

/** Returns the process at the other end (SO_PEERCRED of unix(7)). Throws ErrnoError. */
export function peerCredentials(fd: number): PeerCredentials {
  const credentials = Buffer.alloc(CREDENTIALS_BYTES)
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, [CREDENTIALS_BYTES]) !== 0)
    throw new ErrnoError('getsockopt SO_PEERCRED', errno())
  const view = new DataView(credentials.buffer, credentials.byteOffset)
  return {
    pid: view.getInt32(0, IS_LITTLE_ENDIAN),
    uid: view.getUint32(USER_OFFSET, IS_LITTLE_ENDIAN),
  }
}

/** Returns the user of the process that listens at the other end. Throws ErrnoError. */
export const peerUserId = (fd: number): number => peerCredentials(fd).uid

/** Linux is little-endian on x86-64 and arm64. */
const IS_LITTLE_ENDIAN = true

function addressOf(path: string): Buffer {
  const address = Buffer.alloc(FAMILY_BYTES + Buffer.byteLength(path) + 1)
  if (address.length > FAMILY_BYTES + PATH_BYTES_MAX) throw new RangeError(`${path} is too long for a socket`)
  address.writeUInt16LE(AF_UNIX)
  address.write(path, FAMILY_BYTES)
  return address
}
