import { formatAddress, networkContains, parseAddress } from '../../core/network/address.ts'
import { prefixOfChain, RULE_MAPS } from '../../core/network/guest-rule.ts'
import { GUEST_SETS } from '../../core/network/ruleset.ts'
import type { GuestRule } from '../../core/world/network-state.ts'
import type { Element } from './nft-codec.ts'

/** The sets and maps that contain the elements of guests. */
export const ELEMENT_SETS = [...Object.keys(GUEST_SETS), ...Object.keys(RULE_MAPS)]

/** Returns the elements of those sets when these rules are in force, as {@link elementText} writes them. */
export function guestElements(guests: Iterable<GuestRule>): ReadonlySet<string> {
  const rules = [...guests]
  const elements = new Set<string>()
  for (const [set, keys] of addressKeys(rules)) {
    for (const key of keys) elements.add(elementText(set, { key: key.toString('hex') }))
  }
  for (const rule of rules) {
    for (const [map, chainOf] of Object.entries(RULE_MAPS)) {
      const chain = chainOf(rule)
      if (chain === undefined) continue
      elements.add(elementText(map, { key: deviceKey(rule.device).toString('hex'), chain }))
    }
  }
  return elements
}

/** Returns the keys of guests in the sets of addresses, by set. Sets without a key are left out. */
export function addressKeys(guests: readonly GuestRule[]): ReadonlyMap<string, readonly Buffer[]> {
  const keys = Object.entries(GUEST_SETS).map(([set, { of }]): readonly [string, readonly Buffer[]] => [
    set,
    guests.flatMap((rule) => {
      const value = of(rule)
      return value === undefined ? [] : [Buffer.concat([deviceKey(rule.device), valueKey(value)])]
    }),
  ])
  return new Map(keys.filter(([, { length }]) => length > 0))
}

export const elementText = (set: string, { key, chain = '' }: Element): string => `${set} ${key} ${chain}`

/** An address or the prefix of a guest, and the device that its packets may come from. */
export type DeviceAddress = { readonly device: string; readonly address: string }

export const addressesOf = ({
  device,
  ipv4Address,
  ipv6Address,
  ipv6Prefix,
}: GuestRule): readonly DeviceAddress[] =>
  [ipv4Address, ipv6Address, ipv6Prefix].flatMap((address) =>
    address === undefined ? [] : [{ device, address }],
  )

export const isPrefix = ({ address }: Pick<DeviceAddress, 'address'>): boolean => address.includes('/')

/** Returns whether a guest may use an address or a prefix: it is one of its own, or within its prefix. */
export const mayUse = (rule: GuestRule, address: string): boolean =>
  addressesOf(rule).some(({ address: own }) => own === address || networkContains(own, address))

const DEVICE_BYTES = 16

/** Parses a key, in hexadecimal, of a set that contains addresses. */
export function parseAddressKey(key: string): DeviceAddress {
  const bytes = Buffer.from(key, 'hex')
  return { device: deviceOfKey(key), address: formatAddress(bytes.subarray(DEVICE_BYTES)) }
}

/** Returns the prefix that an element of the map of prefixes is about. */
export function parsePrefixElement({ key, chain = '' }: Element): readonly DeviceAddress[] {
  const address = prefixOfChain(chain)
  return address === undefined ? [] : [{ device: deviceOfKey(key), address }]
}

/** Returns the device at the beginning of a key in hexadecimal. */
export const deviceOfKey = (key: string): string =>
  Buffer.from(key, 'hex').toString('latin1', 0, DEVICE_BYTES).replace(/\0+$/, '')

/** Encodes the name of a device for a key: IFNAMSIZ bytes. */
export function deviceKey(device: string): Buffer {
  const key = Buffer.alloc(DEVICE_BYTES)
  key.write(device)
  return key
}

/** Encodes an address in network order. Each part of a key fills registers of four bytes. */
function valueKey(value: string): Buffer {
  const bytes = parseAddress(value) ?? Buffer.from(value.replaceAll(':', ''), 'hex')
  const key = Buffer.alloc((bytes.length + 3) & ~3)
  key.set(bytes)
  return key
}
