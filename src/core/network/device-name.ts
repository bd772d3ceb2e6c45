import type { DeviceName, UserId } from '../ids.ts'

/** The prefix of every tap of ours; no other device on the host may have it. */
export const DEVICE_PREFIX = 'vmt'

/** Returns the name of a VM's tap: at most 13 bytes of the 15 that a device name may have (IFNAMSIZ, netdevice(7)). */
export const deviceName = (userId: UserId): DeviceName => `${DEVICE_PREFIX}${userId}` as DeviceName

/** Returns the user id in a name, the exact inverse of {@link deviceName}; undefined for any other name. */
export function parseDeviceName(name: string): UserId | undefined {
  const match = /^vmt([1-9][0-9]{0,9})$/.exec(name)
  return match === null ? undefined : (Number(match[1]) as UserId)
}
