import { networkCovers } from './cidr.ts'
import type { InboundRule, PortRange } from '../desired.ts'
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

/** Returns whether a rule lets anything in. */
export const letsIn = ({ protocol, ports, sources }: InboundRule): boolean =>
  sources?.length !== 0 && (ports?.length !== 0 || !hasPorts(protocol))

const hasPorts = (protocol: InboundRule['protocol']): boolean => protocol === 'tcp' || protocol === 'udp'

const canonicalRule = ({ protocol, ports, sources }: InboundRule): InboundRule => ({
  protocol,
  ...(ports === undefined || !hasPorts(protocol) ? {} : { ports: joinRanges(ports) }),
  ...(sources === undefined ? {} : { sources: outermost(sources) }),
})

function joinRanges(ranges: readonly PortRange[]): readonly PortRange[] {
  const joined: PortRange[] = []
  for (const { first, last } of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = joined.at(-1)
    if (before === undefined || first > before.last + 1) joined.push({ first, last })
    else joined[joined.length - 1] = { first: before.first, last: Math.max(before.last, last) }
  }
  return joined
}

const outermost = (networks: readonly string[]): readonly string[] =>
  [...new Set(networks)]
    .filter((network) => !networks.some((other) => other !== network && networkCovers(other, network)))
    .toSorted()

export const sameGuestRule = (a: GuestRule, b: GuestRule): boolean =>
  a === b ||
  (a.device === b.device &&
    a.macAddress === b.macAddress &&
    a.ipv4Address === b.ipv4Address &&
    a.ipv6Address === b.ipv6Address &&
    sameInbound(a.inbound, b.inbound))
