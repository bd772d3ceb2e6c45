/** Options of TCP that node:net does not offer. */
import { ErrnoError } from './errno-error.ts'
import { errno } from './koffi.ts'
import { setsockopt } from './socket-calls.ts'
import type { Socket } from 'node:net'

/** linux/in.h and linux/tcp.h; the same on x86-64 and arm64. */
const IPPROTO_TCP = 6
const TCP_USER_TIMEOUT = 18
/** Bytes of an unsigned int. */
const VALUE_BYTES = 4

/**
 * Ends a connection whose peer acknowledges nothing for so many milliseconds (tcp(7)). Without it, what was sent to a
 * peer that has vanished is repeated for about a quarter of an hour. Throws ErrnoError.
 */
export function endIfGone(socket: Socket, ms: number): void {
  const fd = descriptorOf(socket)
  if (fd === undefined) return
  const value = Buffer.alloc(VALUE_BYTES)
  value.writeUInt32LE(ms)
  if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, value, VALUE_BYTES) !== 0)
    throw new ErrnoError('setsockopt TCP_USER_TIMEOUT', errno())
}

/** Returns the descriptor of a connection, which Node keeps in its handle; undefined once it is closed. */
export function descriptorOf(socket: Socket): number | undefined {
  const handle: unknown = Reflect.get(socket, '_handle')
  const fd: unknown = typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'fd') : undefined
  return typeof fd === 'number' && fd >= 0 ? fd : undefined
}
