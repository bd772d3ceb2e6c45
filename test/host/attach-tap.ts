import { openSync } from 'node:fs'
import { ErrnoError } from '../../src/host/ffi/errno-error.ts'
import { errno, library } from '../../src/host/ffi/koffi.ts'
import { parseMac } from '../../src/host/netlink/route-codec.ts'
import type { TapMaking } from '../../src/core/world/network-state.ts'

const TUNSETIFF = 0x400454ca
const TUNSETOWNER = 0x400454cc
const TUNSETGROUP = 0x400454ce
const SIOCSIFHWADDR = 0x8924
const IFF_TAP_NO_PI = 0x1002

const ARPHRD_ETHER = 1

const ioctl = library('libc.so.6').func('int ioctl(int fd, unsigned long request, ...)')

/**
 * Holds a tap as a monitor does, or makes one that lives as long as it is held. Returns the descriptor for its frames.
 */
export function attachTap(device: string): number {
  const fd = openSync('/dev/net/tun', 'r+')
  const request = Buffer.alloc(40)
  request.write(device)
  request.writeUInt16LE(IFF_TAP_NO_PI, 16)
  check(`TUNSETIFF of ${device}`, ioctl(fd, TUNSETIFF, 'void *', request))
  return fd
}

/** Changes a tap by a descriptor that is attached to it. The kernel asks for no right beyond that. */
export function changeTap(fd: number, { owner, group, macAddress }: Partial<TapMaking>): void {
  if (owner !== undefined) check('TUNSETOWNER', ioctl(fd, TUNSETOWNER, 'unsigned long', owner))
  if (group !== undefined) check('TUNSETGROUP', ioctl(fd, TUNSETGROUP, 'unsigned long', group))
  if (macAddress === undefined) return
  const request = Buffer.alloc(40)
  request.writeUInt16LE(ARPHRD_ETHER, 16)
  parseMac(macAddress).copy(request, 18)
  check('SIOCSIFHWADDR', ioctl(fd, SIOCSIFHWADDR, 'void *', request))
}

function check(name: string, result: unknown): void {
  if (result !== 0) throw new ErrnoError(`ioctl ${name}`, errno())
}
