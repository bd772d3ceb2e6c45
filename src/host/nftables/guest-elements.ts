import { parseAddress } from '../../core/network/address.ts'
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

const DEVICE_BYTES = 16

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
