/** Makes and attaches taps by the ioctls of /dev/net/tun (drivers/net/tun.c and linux/if_tun.h). */
import { close, openSync } from 'node:fs'
import { constants } from 'node:os'
import { promisify } from 'node:util'
import { ErrnoError } from '../ffi/errno-error.ts'
import { errno, library } from '../ffi/koffi.ts'
import { GATEWAY_MAC } from '../../core/network/tap.ts'
import type { DeviceName, UserId } from '../../core/ids.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/** The numbers are the same on x86-64 and arm64. */
const TUNSETIFF = 0x400454ca
const TUNSETPERSIST = 0x400454cb
const TUNSETOWNER = 0x400454cc
const TUNSETOFFLOAD = 0x400454d0
const TUNSETVNETHDRSZ = 0x400454d8

const IFF_TAP = 0x0002
const IFF_NO_PI = 0x1000
const IFF_VNET_HDR = 0x4000
/** Refuses an existing device, to which the call would otherwise attach. */
const IFF_TUN_EXCL = 0x8000

/** struct ifreq (netdevice(7)): the name in 16 bytes, then a union whose flags come first. */
const IFREQ_BYTES = 40
const IFREQ_FLAGS_AT = 16

/**
 * The size of struct virtio_net_hdr_v1 before each frame. Every monitor uses it with a virtio 1 device (5.1.6.1 of the
 * virtio specification; Firecracker, and QEMU unless its device reports hashes), and we have no other devices.
 */
const VNET_HEADER_BYTES = 12

const ioctl = library('libc.so.6').func('int ioctl(int fd, unsigned long request, ...)')

/**
 * Makes the device, or with `exclusive: false` attaches to an existing one, as QEMU does. Throws ErrnoError; EBUSY if
 * another process has it, and also if the name is taken.
 */
export function attach(fd: number, device: DeviceName, { exclusive }: { readonly exclusive: boolean }): void {
  const request = Buffer.alloc(IFREQ_BYTES)
  request.write(device, 0, 'latin1')
  request.writeUInt16LE(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (exclusive ? IFF_TUN_EXCL : 0), IFREQ_FLAGS_AT)
  check('TUNSETIFF', ioctl(fd, TUNSETIFF, 'void *', request))
}

function setOwner(fd: number, userId: number): void {
  check('TUNSETOWNER', ioctl(fd, TUNSETOWNER, 'unsigned long', userId))
}

function makePersistent(fd: number): void {
  check('TUNSETPERSIST', ioctl(fd, TUNSETPERSIST, 'unsigned long', 1))
}

export function setHeaderSize(fd: number): void {
  check('TUNSETVNETHDRSZ', ioctl(fd, TUNSETVNETHDRSZ, 'void *', Int32Array.of(VNET_HEADER_BYTES)))
}

/** Accepts only complete frames with complete checksums. */
export function setNoOffload(fd: number): void {
  check('TUNSETOFFLOAD', ioctl(fd, TUNSETOFFLOAD, 'unsigned long', 0))
}

function check(name: string, result: number): void {
  if (result !== 0) throw new ErrnoError(`ioctl ${name}`, errno())
}

/**
 * Makes a persistent tap that `userId` may attach to. A tap that is not persistent yet ends with its descriptor, and
 * the mark is set before it becomes persistent. So a crash at any moment leaves no unmarked tap. No command-line tool
 * can do this. Throws ErrnoError; EBUSY or EINVAL if the name is taken.
 */
export async function createTap(
  links: Rtnetlink,
  tap: { readonly device: DeviceName; readonly userId: UserId; readonly mark: string },
): Promise<void> {
  const { device, userId, mark } = tap
  const fd = openSync('/dev/net/tun', 'r+')
  try {
    attach(fd, device, { exclusive: true })
    setOwner(fd, userId)
    // A starting monitor sets it by itself. A monitor that gets its device back (attachAgain) does not.
    setHeaderSize(fd)
    const link = links.link(device)
    if (link === undefined) throw new ErrnoError(`find tap ${device}`, constants.errno.ENODEV)
    links.set(link.index, { macAddress: GATEWAY_MAC, alias: mark })
    makePersistent(fd)
  } finally {
    // In a thread, because the kernel waits for packets in flight.
    await promisify(close)(fd)
  }
}
