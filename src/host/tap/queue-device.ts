import { DEVICE_PREFIX, parseDeviceName } from '../../core/network/tap.ts'
import type { DeviceName } from '../../core/ids.ts'

/** No tap's name begins with this prefix, so the firewall's rules for taps do not apply to queue devices. */
const QUEUE_PREFIX = 'vmq'

/** Returns the name of the device in which a guest's packets wait when its transmission is limited. */
export const queueDevice = (device: DeviceName): string => device.replace(DEVICE_PREFIX, QUEUE_PREFIX)

/** Returns the tap of a queue device; undefined for any other name. */
export function tapOfQueue(name: string): DeviceName | undefined {
  if (!name.startsWith(QUEUE_PREFIX)) return undefined
  const device = name.replace(QUEUE_PREFIX, DEVICE_PREFIX)
  return parseDeviceName(device) === undefined ? undefined : (device as DeviceName)
}
