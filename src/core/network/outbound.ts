import { canonicalPorts, isAboutAny, outermost, ruleChains } from './rule-chains.ts'
import { given } from '../../lib/given.ts'
import type { Chain, Traffic } from './rule-chains.ts'
import type { OutboundRule } from '../desired.ts'
import type { GuestRule } from '../world/network-state.ts'

/** Returns the rules in order and in one form. Rules about no traffic are left out, and so are last ones that allow. */
export function canonicalOutbound(rules: readonly OutboundRule[] = []): readonly OutboundRule[] {
  const canonical = rules.filter((rule) => isAboutAny(trafficOf(rule))).map(canonicalRule)
  // What no rule is about is allowed anyway.
  return canonical.slice(0, canonical.findLastIndex(({ action }) => action === 'deny') + 1)
}

/** Returns whether two lists, or the absence of one, say the same; false for some that differ only in overlaps. */
export const sameOutbound = (a?: readonly OutboundRule[], b?: readonly OutboundRule[]): boolean =>
  JSON.stringify(canonicalOutbound(a)) === JSON.stringify(canonicalOutbound(b))

const trafficOf = ({ protocol, ports, destinations: networks }: OutboundRule): Traffic => ({
  protocol,
  ...given({ ports, networks }),
})

const canonicalRule = (rule: OutboundRule): OutboundRule => ({
  action: rule.action,
  protocol: rule.protocol,
  ...given({
    ports: canonicalPorts(rule),
    destinations: rule.destinations === undefined ? undefined : outermost(rule.destinations),
  }),
})

/** The chain for packets that a guest's rules deny. */
export const DENIED = 'denied'

/** Returns the chain that judges what the guest opens to others; undefined if nothing is denied. */
export const outboundChain = ({ device, outbound }: GuestRule): string | undefined =>
  canonicalOutbound(outbound).length === 0 ? undefined : `from_${device}`

/** Returns the guest's own chains for what it opens to others. */
export function outboundChains(guest: GuestRule): readonly Chain[] {
  const name = outboundChain(guest)
  if (name === undefined) return []
  const judgements = canonicalOutbound(guest.outbound).map((rule) => ({
    traffic: trafficOf(rule),
    verdict: rule.action === 'allow' ? 'accept' : `goto ${DENIED}`,
  }))
  return ruleChains(name, judgements, { end: 'daddr' })
}
