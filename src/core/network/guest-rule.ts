import { inboundChain, inboundChains, sameInbound } from './inbound.ts'
import { outboundChain, outboundChains, sameOutbound } from './outbound.ts'
import type { Chain } from './rule-chains.ts'
import type { GuestRule } from '../world/network-state.ts'

/** The chain for packets from an address of the guest's prefix. */
export const FROM_PREFIX = 'from_prefix'

/** The chain for packets of a guest that come neither from its addresses nor from its prefix. */
export const OTHER_SOURCE = 'other_source'

/**
 * Returns the chain that judges packets from other sources than the guest's addresses; undefined if the guest has no
 * prefix. Its name has the prefix without colons, so the table itself says which prefixes are in force.
 */
const prefixChain = ({ device, ipv6Prefix }: GuestRule): string | undefined =>
  ipv6Prefix === undefined ? undefined : `prefix_${device}_${ipv6Prefix.replaceAll(':', '.')}`

/** Returns the prefix in the name of a chain, the inverse of {@link prefixChain}. */
export const prefixOfChain = (name: string): string | undefined =>
  /^prefix_[^_]+_(.+)$/.exec(name)?.[1]?.replaceAll('.', ':')

/** Returns the guest's own chain for its prefix. */
function prefixChains(guest: GuestRule): readonly Chain[] {
  const name = prefixChain(guest)
  if (name === undefined) return []
  return [{ name, rules: [`ip6 saddr ${guest.ipv6Prefix} goto ${FROM_PREFIX}`, `goto ${OTHER_SOURCE}`] }]
}

/** The maps from a device to the chain of its guest's own rules, with the function that names that chain. */
export const RULE_MAPS = { inbound: inboundChain, outbound: outboundChain, prefix: prefixChain } as const

/** Returns whether a guest's packets are judged by a chain that not every guest has. */
export const hasOwnRules = (guest: GuestRule): boolean =>
  Object.values(RULE_MAPS).some((chainOf) => chainOf(guest) !== undefined)

/** Returns all chains of a guest's own, each before those that lead to it. */
export const guestChains = (guest: GuestRule): readonly Chain[] => [
  ...inboundChains(guest),
  ...outboundChains(guest),
  ...prefixChains(guest),
]

/** Returns whether two rules of guests have the same chains. */
export const sameChains = (a: GuestRule, b: GuestRule): boolean =>
  sameInbound(a.inbound, b.inbound) && sameOutbound(a.outbound, b.outbound) && a.ipv6Prefix === b.ipv6Prefix

export const sameGuestRule = (a: GuestRule, b: GuestRule): boolean =>
  a === b ||
  (a.device === b.device &&
    a.macAddress === b.macAddress &&
    a.ipv4Address === b.ipv4Address &&
    a.ipv6Address === b.ipv6Address &&
    sameChains(a, b))
