/** The system calls of netlink sockets (netlink(7)). Each throws ErrnoError. */
import { constants } from 'node:os'
import { ErrnoError } from '../ffi/errno-error.ts'
import { callInThread, errno, library } from '../ffi/koffi.ts'
import { setsockopt, SOCK_CLOEXEC, SOCK_RAW, socket } from '../ffi/socket-calls.ts'

export const NETLINK_ROUTE = 0
export const NETLINK_NETFILTER = 12
export type Protocol = typeof NETLINK_ROUTE | typeof NETLINK_NETFILTER

/** The kernel fills dumps into datagrams of at most this size (netlink_dump in net/netlink/af_netlink.c). */
export const DATAGRAM_BYTES = 32 * 1024

const MSG_DONTWAIT = 0x40
const MSG_TRUNC = 0x20

const AF_NETLINK = 16
/** struct sockaddr_nl: family, padding, port, groups. */
const ADDRESS_BYTES = 12
const PORT_AT = 4

const libc = library('libc.so.6')
const bind = libc.func('int bind(int fd, const void *address, uint32_t size)')
const getsockname = libc.func('int getsockname(int fd, void *address, void *size)')
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
  const size = await callInThread(send, fd, bytes, bytes.length, 0)
  if (size < 0) throw new ErrnoError(`netlink: ${what}`, -size)
}

type Receiving = { readonly into: Buffer; readonly what: string }

/** Waits for one datagram, and returns the part of `into` that it fills. */
export const receive = (fd: number, receiving: Receiving): Buffer =>
  filled(receiving, receiveWith(fd, receiving, 0))

/** Returns the part of `into` that the next datagram fills; undefined if there is none yet. */
export function receiveIfThere(fd: number, receiving: Receiving): Buffer | undefined {
  const size = receiveWith(fd, receiving, MSG_DONTWAIT)
  return size === -constants.errno.EAGAIN ? undefined : filled(receiving, size)
}

/** Waits for one datagram in a thread, if it takes the kernel long to collect it. */
export async function receiveInThread(fd: number, receiving: Receiving): Promise<Buffer> {
  const { into } = receiving
  let size
  do size = await callInThread(recv, fd, into, into.length, MSG_TRUNC)
  while (size === -constants.errno.EINTR)
  return filled(receiving, size)
}

/** Returns the size of a datagram, or a negative errno. */
function receiveWith(fd: number, { into }: Receiving, flags: number): number {
  for (;;) {
    const size = Number(recv(fd, into, into.length, flags | MSG_TRUNC))
    if (size >= 0) return size
    const failed = errno()
    if (failed !== constants.errno.EINTR) return -failed
  }
}

/**
 * Returns the part that a datagram of this size fills. Throws if the size is an errno, or if the datagram is cut off.
 */
function filled({ into, what }: Receiving, size: number): Buffer {
  if (size < 0) throw new ErrnoError(`netlink: ${what}`, -size)
  if (size > into.length) throw new ErrnoError(`netlink: ${what}`, constants.errno.EMSGSIZE)
  return into.subarray(0, size)
}

export function closeNetlink(fd: number): void {
  close(fd)
}
