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
export const prefixChain = ({ device, ipv6Prefix }: GuestRule): string | undefined =>
  ipv6Prefix === undefined ? undefined : `prefix_${device}_${ipv6Prefix.replaceAll(':', '.')}`

/** Returns the prefix in the name of a chain, the inverse of {@link prefixChain}. */
export const prefixOfChain = (name: string): string | undefined =>
  /^prefix_[^_]+_(.+)$/.exec(name)?.[1]?.replaceAll('.', ':')

/** Returns the guest's own chain for its prefix. */
export function prefixChains(guest: GuestRule): readonly Chain[] {
  const name = prefixChain(guest)
  if (name === undefined) return []
  return [{ name, rules: [`ip6 saddr ${guest.ipv6Prefix} goto ${FROM_PREFIX}`, `goto ${OTHER_SOURCE}`] }]
}
