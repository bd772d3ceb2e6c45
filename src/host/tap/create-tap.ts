import { closeSync, openSync } from 'node:fs'
import { constants } from 'node:os'
import { GATEWAY_MAC } from '../../core/network/tap.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { attach, makePersistent, setHeaderSize, setOwner } from './tun-control.ts'
import type { DeviceName, UserId } from '../../core/ids.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/**
 * Makes a persistent tap that `userId` may attach to. A tap that is not persistent yet ends with its descriptor, and
 * the mark is set before it becomes persistent. So a crash at any moment leaves no unmarked tap. No command-line tool
 * can do this. Throws ErrnoError; EBUSY or EINVAL if the name is taken.
 */
export function createTap(
  links: Rtnetlink,
  tap: { readonly device: DeviceName; readonly userId: UserId; readonly mark: string },
): void {
  const { device, userId, mark } = tap
  const fd = openSync('/dev/net/tun', 'r+')
  try {
    attach(fd, device, { exclusive: true })
    setOwner(fd, userId)
    // A starting monitor sets it by itself. A monitor that gets its device back (attachAgain) does not.
    setHeaderSize(fd)
    const link = links.link(device)
    if (link === undefined) throw new ErrnoError(`find tap ${device}`, constants.errno.ENODEV)
    links.setAddress(link.index, GATEWAY_MAC)
    links.setAlias(link.index, mark)
    makePersistent(fd)
  } finally {
    closeSync(fd)
  }
}
