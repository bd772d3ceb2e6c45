import { canonicalPorts, isAboutAny, outermost, ruleChains } from './rule-chains.ts'
import { given } from '../../lib/given.ts'
import type { Chain, Traffic } from './rule-chains.ts'
import type { InboundRule } from '../desired.ts'
import type { GuestRule } from '../world/network-state.ts'

/**
 * Returns the rules in their one form, whatever their order, repetition and overlap. Ports are joined to the fewest
 * ranges. Sources inside other sources, repeated rules, and rules that let nothing in are left out.
 */
export function canonicalInbound(rules: readonly InboundRule[]): readonly InboundRule[] {
  const byText = new Map(
    rules
      .filter(letsIn)
      .map(canonicalRule)
      .map((rule) => [JSON.stringify(rule), rule]),
  )
  return [...byText].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, rule]) => rule)
}

/**
 * Returns whether two lists, or the absence of one, let the same in; false for some that differ only because one rule
 * covers another.
 */
export function sameInbound(
  a: readonly InboundRule[] | undefined,
  b: readonly InboundRule[] | undefined,
): boolean {
  if (a === undefined || b === undefined) return a === b
  return JSON.stringify(canonicalInbound(a)) === JSON.stringify(canonicalInbound(b))
}

const trafficOf = ({ sources: networks, ...rule }: InboundRule): Traffic => ({
  ...rule,
  ...given({ networks }),
})

const letsIn = (rule: InboundRule): boolean => isAboutAny(trafficOf(rule))

const canonicalRule = (rule: InboundRule): InboundRule => ({
  protocol: rule.protocol,
  ...given({
    ports: canonicalPorts(rule),
    sources: rule.sources === undefined ? undefined : outermost(rule.sources),
  }),
})

/** The chain for packets that no rule lets in: it counts them for the guest and drops them. */
export const REFUSED = 'refused'

/** Returns the chain that judges what others open to the guest; undefined if the guest has no rules of its own. */
export function inboundChain({ device, inbound }: GuestRule): string | undefined {
  if (inbound === undefined) return undefined
  return inbound.some(letsIn) ? `to_${device}` : REFUSED
}

/** Returns the guest's own chains for what others open to it. */
export function inboundChains(guest: GuestRule): readonly Chain[] {
  const name = inboundChain(guest)
  if (name === undefined || name === REFUSED) return []
  const rules = canonicalInbound(guest.inbound ?? [])
  return ruleChains(
    name,
    rules.map((rule) => ({ traffic: trafficOf(rule), verdict: 'accept' })),
    { end: 'saddr', last: `goto ${REFUSED}` },
  )
}
