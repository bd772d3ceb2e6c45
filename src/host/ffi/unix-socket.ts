/**
 * Functions for Unix sockets that node:net does not offer: they show which process is at the other end before anything
 * is sent.
 */
import { closeSync } from 'node:fs'
import { ErrnoError } from './errno-error.ts'
import { errno } from './koffi.ts'
import {
  connect,
  getsockopt,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  socket,
  SOL_SOCKET,
} from './socket-calls.ts'

/** linux/socket.h and asm-generic/socket.h; the same on x86-64 and arm64. */
const AF_UNIX = 1
const SO_PEERCRED = 17
/** struct sockaddr_un: the family, then at most 108 bytes of path with the final zero (unix(7)). */
const FAMILY_BYTES = 2
const PATH_BYTES_MAX = 108
/** struct ucred: process, user and group, 4 bytes each. */
const CREDENTIALS_BYTES = 12
const USER_OFFSET = 4

/**
 * Returns a descriptor connected to a Unix stream socket. It never waits: EAGAIN if the socket's queue is full
 * (connect(2)). Throws ErrnoError.
 */
export function connectUnix(path: string): number {
  const fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
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
