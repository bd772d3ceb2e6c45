import { ErrnoError } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'

/** asm-generic/fcntl.h; the same on x86-64 and arm64. */
const F_SETFL = 4
const F_SETOWN = 8
const O_ASYNC = 0o20000

const fcntl = library('libc.so.6').func('int fcntl(int fd, int command, ...)')

const readers = new Map<number, () => void>()
let listening = false

/**
 * Calls `read`, in a turn of the event loop, after data arrived for a socket that libuv cannot watch. The kernel then
 * sends SIGIO (O_ASYNC in fcntl(2)), and Node handles signals in its event loop. So no thread waits, and nothing is
 * polled. A signal says neither how much arrived nor for which socket, so every reader is called, and reads until
 * nothing is left.
 *
 * It does not keep the process alive. Returns a function that ends it, to be called before the socket is closed. Throws
 * ErrnoError.
 */
export function onReadable(fd: number, read: () => void): () => void {
  // The handler is never removed: without one the signal would end the process.
  if (!listening) process.on('SIGIO', readAll)
  listening = true
  readers.set(fd, read)
  const end = (): void => {
    readers.delete(fd)
    fcntl(fd, F_SETFL, 'int', 0)
  }
  if (fcntl(fd, F_SETOWN, 'int', process.pid) < 0 || fcntl(fd, F_SETFL, 'int', O_ASYNC) < 0) {
    const failed = errno()
    end()
    throw new ErrnoError(`fcntl O_ASYNC ${fd}`, failed)
  }
  return end
}

function readAll(): void {
  for (const read of readers.values()) read()
}
