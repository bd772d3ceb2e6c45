import { DEVICE_PREFIX, parseDeviceName } from '../../core/network/device-name.ts'
import type { DeviceName } from '../../core/vm/ids.ts'

/** No name that begins with it is a tap's: what the firewall says of taps is not said of these. */
const QUEUE_PREFIX = 'vmq'

/** The device where a guest's packets wait for their turn, where what it sends is limited. */
export const queueDevice = (device: DeviceName): string => device.replace(DEVICE_PREFIX, QUEUE_PREFIX)

/** The tap that a queue device belongs to; undefined for any other name. */
export function tapOfQueue(name: string): DeviceName | undefined {
  if (!name.startsWith(QUEUE_PREFIX)) return undefined
  const device = name.replace(QUEUE_PREFIX, DEVICE_PREFIX)
  return parseDeviceName(device) === undefined ? undefined : (device as DeviceName)
}
