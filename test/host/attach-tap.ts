import { openSync } from 'node:fs'
import { ErrnoError } from '../../src/host/ffi/errno-error.ts'
import { errno, library } from '../../src/host/ffi/koffi.ts'

const TUNSETIFF = 0x400454ca
const IFF_TAP_NO_PI = 0x1002

const ioctl = library('libc.so.6').func('int ioctl(int fd, unsigned long request, void *value)')

/**
 * Holds a tap as a monitor does, or makes one that lives as long as it is held. Returns the descriptor for its frames.
 */
export function attachTap(device: string): number {
  const fd = openSync('/dev/net/tun', 'r+')
  const request = Buffer.alloc(40)
  request.write(device)
  request.writeUInt16LE(IFF_TAP_NO_PI, 16)
  if (ioctl(fd, TUNSETIFF, request) !== 0) throw new ErrnoError(`attach to ${device}`, errno())
  return fd
}
