import { closeSync, openSync } from 'node:fs'
import { constants } from 'node:os'
import { ErrnoError } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'
import type { DeviceName, UserId } from '../../core/vm/ids.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/** linux/if_tun.h; the same on x86-64 and arm64. */
const TUNSETIFF = 0x400454ca
const TUNSETPERSIST = 0x400454cb
const TUNSETOWNER = 0x400454cc
const IFF_TAP = 0x0002
const IFF_NO_PI = 0x1000
const IFF_VNET_HDR = 0x4000
/** Refuse a device that is there already, where the call would otherwise attach to it. */
const IFF_TUN_EXCL = 0x8000

/** struct ifreq (netdevice(7)): the name in 16 bytes, then a union whose flags come first. */
const IFREQ_BYTES = 40
const IFREQ_FLAGS_AT = 16

const ioctl = library('libc.so.6').func('int ioctl(int fd, unsigned long request, ...)')

/**
 * Makes a persistent tap that `userId` may attach to. A tap lives as long as its descriptor until it is made persistent,
 * and it is marked before that: there is no moment at which a crash leaves an unmarked tap behind. No command-line tool
 * can do this. Throws ErrnoError; EBUSY or EINVAL where the name is taken.
 */
export function createTap(
  links: Rtnetlink,
  tap: { readonly device: DeviceName; readonly userId: UserId; readonly mark: string },
): void {
  const { device, userId, mark } = tap
  const fd = openSync('/dev/net/tun', 'r+')
  try {
    const request = Buffer.alloc(IFREQ_BYTES)
    request.write(device, 0, 'latin1')
    request.writeUInt16LE(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL, IFREQ_FLAGS_AT)
    control(fd, { name: 'TUNSETIFF', request: TUNSETIFF, type: 'void *', value: request })
    control(fd, { name: 'TUNSETOWNER', request: TUNSETOWNER, type: 'unsigned long', value: userId })
    const link = links.link(device)
    if (link === undefined) throw new ErrnoError(`find tap ${device}`, constants.errno.ENODEV)
    links.setAlias(link.index, mark)
    control(fd, { name: 'TUNSETPERSIST', request: TUNSETPERSIST, type: 'unsigned long', value: 1 })
  } finally {
    closeSync(fd)
  }
}

type Control = {
  readonly name: string
  readonly request: number
  readonly type: 'void *' | 'unsigned long'
  readonly value: number | Buffer
}

function control(fd: number, { name, request, type, value }: Control): void {
  if (ioctl(fd, request, type, value) !== 0) throw new ErrnoError(`ioctl ${name}`, errno())
}
