import { networkCovers, networkFamily } from './address.ts'
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
const letsIn = ({ protocol, ports, sources }: InboundRule): boolean =>
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

/** A chain of nftables and its statements, one rule each. */
export type Chain = { readonly name: string; readonly rules: readonly string[] }

/** The chain for packets that no rule lets in: it counts them for the guest and drops them. */
export const REFUSED = 'refused'

/** Returns the chain that judges what others open to the guest; undefined if the guest has no rules of its own. */
export function inboundChain({ device, inbound }: GuestRule): string | undefined {
  if (inbound === undefined) return undefined
  return inbound.some(letsIn) ? `to_${device}` : REFUSED
}

/**
 * Returns the guest's own chains, each before those that lead to it. They have no anonymous sets, but one rule for each
 * source or port: a table with thousands of sets makes every transaction on it a hundred times slower. Only the first
 * packet of a connection meets these rules. If a rule has several sources and several ports, the ports have a chain of
 * their own, so that their numbers add up instead of multiplying.
 */
export function inboundChains(guest: GuestRule): readonly Chain[] {
  const name = inboundChain(guest)
  if (name === undefined || name === REFUSED) return []
  const chains: Chain[] = []
  const rules = canonicalInbound(guest.inbound ?? [])
    .flatMap(clauses)
    .flatMap(({ from, what }) => {
      if (from.length === 1 || what.length === 1) {
        return from.flatMap((source) => what.map((content) => statement(source, content, 'accept')))
      }
      const ports = {
        name: `${name}_${chains.length + 1}`,
        rules: what.map((port) => statement(port, 'accept')),
      }
      chains.push(ports)
      return from.map((source) => statement(source, `jump ${ports.name}`))
    })
  return [...chains, { name, rules: [...rules, `goto ${REFUSED}`] }]
}

/** Matches for the source of a packet, and for its content; one of each must hold. */
type Clause = { readonly from: readonly string[]; readonly what: readonly string[] }

const FAMILIES = {
  ipv4: { any: 'meta nfproto ipv4', source: 'ip saddr', icmp: 'icmp' },
  ipv6: { any: 'meta nfproto ipv6', source: 'ip6 saddr', icmp: 'ipv6-icmp' },
} as const

function clauses(rule: InboundRule): readonly Clause[] {
  const { protocol, sources } = rule
  if (sources === undefined && protocol !== 'icmp') return [{ from: [''], what: contents(rule, 'ipv4') }]
  return (['ipv4', 'ipv6'] as const)
    .map((family) => ({ from: origins(sources, family), what: contents(rule, family) }))
    .filter(({ from }) => from.length > 0)
}

function origins(sources: readonly string[] | undefined, family: 'ipv4' | 'ipv6'): readonly string[] {
  const { any, source } = FAMILIES[family]
  if (sources === undefined) return [any]
  return sources
    .filter((network) => networkFamily(network) === family)
    .map((network) => (network.endsWith('/0') ? any : `${source} ${network}`))
}

function contents({ protocol, ports }: InboundRule, family: 'ipv4' | 'ipv6'): readonly string[] {
  if (protocol === 'any') return ['']
  if (protocol === 'icmp') return [`meta l4proto ${FAMILIES[family].icmp}`]
  return ports?.map((range) => `${protocol} dport ${portText(range)}`) ?? [`meta l4proto ${protocol}`]
}

const portText = ({ first, last }: PortRange): string => (first === last ? `${first}` : `${first}-${last}`)

const statement = (...parts: readonly string[]): string => parts.filter((part) => part !== '').join(' ')
