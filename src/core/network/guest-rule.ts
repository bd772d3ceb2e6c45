import { inboundChain, inboundChains, sameInbound } from './inbound.ts'
import { outboundChain, outboundChains, sameOutbound } from './outbound.ts'
import { prefixChain, prefixChains } from './prefix.ts'
import type { Chain } from './rule-chains.ts'
import type { GuestRule } from '../world/network-state.ts'

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
