import { networkFamily } from './cidr.ts'
import { canonicalInbound, letsIn } from './inbound-rule.ts'
import type { GuestRule } from '../world/network-state.ts'
import type { InboundRule, PortRange } from '../desired.ts'

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
