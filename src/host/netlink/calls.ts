/** The system calls of netlink sockets (netlink(7)). Each throws ErrnoError. */
import { constants } from 'node:os'
import { ErrnoError } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'
import type { ForeignFunction } from '../ffi/koffi.ts'

export const NETLINK_ROUTE = 0
export const NETLINK_NETFILTER = 12
export type Protocol = typeof NETLINK_ROUTE | typeof NETLINK_NETFILTER

/** The kernel fills dumps into datagrams of at most this size (netlink_dump in net/netlink/af_netlink.c). */
export const DATAGRAM_BYTES = 32 * 1024

const MSG_DONTWAIT = 0x40
const MSG_TRUNC = 0x20

const AF_NETLINK = 16
const SOCK_RAW = 3
const SOCK_CLOEXEC = 0o2000000
/** struct sockaddr_nl: family, padding, port, groups. */
const ADDRESS_BYTES = 12
const PORT_AT = 4

const libc = library('libc.so.6')
const socket = libc.func('int socket(int domain, int type, int protocol)') as (...args: number[]) => number
const bind = libc.func('int bind(int fd, const void *address, uint32_t size)')
const getsockname = libc.func('int getsockname(int fd, void *address, void *size)')
const setsockopt = libc.func('int setsockopt(int fd, int level, int name, const void *value, uint32_t size)')
const send = libc.func('long send(int fd, const void *bytes, size_t size, int flags)')
const recv = libc.func('long recv(int fd, void *bytes, size_t size, int flags)')
const close = libc.func('int close(int fd)')

/**
 * Opens a socket in the network namespace of the calling thread. The kernel chooses the port, which is the socket's
 * address.
 */
export function openNetlink(protocol: Protocol): { readonly fd: number; readonly port: number } {
  const fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)
  if (fd < 0) throw new ErrnoError('open netlink socket', errno())
  const address = Buffer.alloc(ADDRESS_BYTES)
  address.writeUInt16LE(AF_NETLINK, 0)
  const size = Uint32Array.of(ADDRESS_BYTES)
  if (bind(fd, address, ADDRESS_BYTES) !== 0 || getsockname(fd, address, size) !== 0) {
    const failed = errno()
    closeNetlink(fd)
    throw new ErrnoError('bind netlink socket', failed)
  }
  return { fd, port: address.readUInt32LE(PORT_AT) }
}

export function setOption(
  fd: number,
  [level, name]: readonly [number, number],
  value: Uint32Array | BigInt64Array,
): void {
  if (setsockopt(fd, level, name, value, value.byteLength) !== 0) {
    throw new ErrnoError(`set option ${name} of a netlink socket`, errno())
  }
}

/** Sends a request. The kernel works on it before this returns. */
export function sendRequest(fd: number, bytes: Buffer, what: string): void {
  if (send(fd, bytes, bytes.length, 0) < 0) throw new ErrnoError(`netlink: ${what}`, errno())
}

/** Does the same in a thread, for a request that takes the kernel long. */
export async function sendRequestInThread(fd: number, bytes: Buffer, what: string): Promise<void> {
  const size = await inThread(send, fd, bytes, 0)
  if (size < 0) throw new ErrnoError(`netlink: ${what}`, -size)
}

type Receiving = { readonly into: Buffer; readonly what: string }

/** Waits for one datagram, and returns the part of `into` that it fills. */
export function receive(fd: number, { into, what }: Receiving): Buffer {
  const size = received(fd, { into, what }, 0)
  if (size < 0) throw new ErrnoError(`netlink: ${what}`, -size)
  return into.subarray(0, size)
}

/** Does the same in a thread, for a datagram that takes the kernel long. */
export async function receiveInThread(fd: number, { into, what }: Receiving): Promise<Buffer> {
  let size: number
  do size = await inThread(recv, fd, into, MSG_TRUNC)
  while (size === -constants.errno.EINTR)
  if (size < 0) throw new ErrnoError(`netlink: ${what}`, -size)
  if (size > into.length) throw new ErrnoError(`netlink: ${what}`, constants.errno.EMSGSIZE)
  return into.subarray(0, size)
}

/** Calls send(2) or recv(2) in a thread, and returns the size, or a negative errno. */
function inThread(call: ForeignFunction, fd: number, bytes: Buffer, flags: number): Promise<number> {
  return new Promise((resolve, reject) => {
    call.async(fd, bytes, bytes.length, flags, (error: Error | null, size: number | bigint) => {
      if (error === null) resolve(size < 0 ? -errno() : Number(size))
      else reject(error)
    })
  })
}

/** Returns the part of `into` that the next datagram fills; undefined if there is none yet. */
export function receiveIfThere(fd: number, { into, what }: Receiving): Buffer | undefined {
  const size = received(fd, { into, what }, MSG_DONTWAIT)
  if (size === -constants.errno.EAGAIN) return undefined
  if (size < 0) throw new ErrnoError(`netlink: ${what}`, -size)
  return into.subarray(0, size)
}

/** Returns the size of the datagram, or a negative errno. */
function received(fd: number, { into, what }: Receiving, flags: number): number {
  for (;;) {
    const size = Number(recv(fd, into, into.length, flags | MSG_TRUNC))
    if (size > into.length) throw new ErrnoError(`netlink: ${what}`, constants.errno.EMSGSIZE)
    if (size >= 0) return size
    const failed = errno()
    if (failed !== constants.errno.EINTR) return -failed
  }
}

export function closeNetlink(fd: number): void {
  close(fd)
}
