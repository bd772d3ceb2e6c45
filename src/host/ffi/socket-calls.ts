/** Calls on sockets that several rooms need (socket(2), connect(2), setsockopt(2)). */
import { library } from './koffi.ts'

/** linux/net.h; the same on x86-64 and arm64. */
export const SOCK_STREAM = 1
export const SOCK_RAW = 3
export const SOCK_NONBLOCK = 0o4000
export const SOCK_CLOEXEC = 0o2000000
/** asm-generic/socket.h: the level of the options that every socket has. */
export const SOL_SOCKET = 1

const libc = library('libc.so.6')

export const socket = libc.func('int socket(int domain, int type, int protocol)') as (
  ...args: number[]
) => number
export const connect = libc.func('int connect(int fd, const void *address, uint32_t size)')
export const setsockopt = libc.func(
  'int setsockopt(int fd, int level, int name, const void *value, uint32_t size)',
)
export const getsockopt = libc.func(
  'int getsockopt(int fd, int level, int name, _Out_ void *value, _Inout_ uint32_t *size)',
)
