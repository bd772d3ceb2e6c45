import { parseVmId } from '../../core/ids.ts'
import { DEVICE_PREFIX, parseDeviceName } from '../../core/network/tap.ts'
import type { VmId, DeviceName } from '../../core/ids.ts'

type TapMark = { readonly storeId: string; readonly id: VmId }

/** Formats the interface alias that names the owner of a tap: `vmhostd:<store>:<vm>`. `ip link` shows it. */
export const formatTapMark = ({ storeId, id }: TapMark): string => `vmhostd:${storeId}:${id}`

/** Parses a mark; undefined for an alias that is not one. */
export function parseTapMark(alias: string): TapMark | undefined {
  const match = /^vmhostd:([^:\s]+):([^:]+)$/.exec(alias)
  const id = parseVmId(match?.[2] ?? '')
  return match?.[1] === undefined || id === undefined ? undefined : { storeId: match[1], id }
}

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
