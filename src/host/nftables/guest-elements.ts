import { formatAddress, parseAddress } from '../../core/network/address.ts'
import { inboundChain } from '../../core/network/inbound-chains.ts'
import { GUEST_SETS, INBOUND_MAP } from '../../core/network/ruleset.ts'
import type { GuestRule } from '../../core/network/guest-rule.ts'
import type { Element } from './nft-codec.ts'

/** What is said of guests stands in these. */
export const ELEMENT_SETS = [...Object.keys(GUEST_SETS), INBOUND_MAP]

/** What those hold when these rules are in force, as {@link elementText} writes it. */
export function guestElements(guests: Iterable<GuestRule>): ReadonlySet<string> {
  const elements = new Set<string>()
  for (const rule of guests) {
    for (const [set, { of }] of Object.entries(GUEST_SETS)) {
      const value = of(rule)
      if (value === undefined) continue
      const key = Buffer.concat([deviceKey(rule.device), valueKey(value)]).toString('hex')
      elements.add(elementText(set, { key }))
    }
    const chain = inboundChain(rule)
    if (chain !== undefined) {
      elements.add(elementText(INBOUND_MAP, { key: deviceKey(rule.device).toString('hex'), chain }))
    }
  }
  return elements
}

export const elementText = (set: string, { key, chain = '' }: Element): string => `${set} ${key} ${chain}`

/** An address of a guest, and the device that it may come out of. */
export type DeviceAddress = { readonly device: string; readonly address: string }

export const addressesOf = ({ device, ipv4Address, ipv6Address }: GuestRule): readonly DeviceAddress[] =>
  [ipv4Address, ipv6Address].flatMap((address) => (address === undefined ? [] : [{ device, address }]))

const DEVICE_BYTES = 16

/** What a key says, in hexadecimal, of the sets that hold addresses. */
export function parseAddressKey(key: string): DeviceAddress {
  const bytes = Buffer.from(key, 'hex')
  return { device: deviceOfKey(key), address: formatAddress(bytes.subarray(DEVICE_BYTES)) }
}

/** The device that a key, in hexadecimal, begins with. */
export const deviceOfKey = (key: string): string =>
  Buffer.from(key, 'hex').toString('latin1', 0, DEVICE_BYTES).replace(/\0+$/, '')

/** The name of a device as it stands in a key: IFNAMSIZ bytes. */
export function deviceKey(device: string): Buffer {
  const key = Buffer.alloc(DEVICE_BYTES)
  key.write(device)
  return key
}

/** An address in network order. Parts of a key fill registers of four bytes. */
function valueKey(value: string): Buffer {
  const bytes = parseAddress(value) ?? Buffer.from(value.replaceAll(':', ''), 'hex')
  const key = Buffer.alloc((bytes.length + 3) & ~3)
  key.set(bytes)
  return key
}
