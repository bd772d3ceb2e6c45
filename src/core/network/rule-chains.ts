import { membersOf, networkFamily, parseAddress } from './address.ts'
import type { PortRange } from '../desired.ts'

/** The traffic that a guest's rule is about. Networks are those of the other end; an absent list means any. */
export type Traffic = {
  readonly protocol: 'tcp' | 'udp' | 'icmp' | 'any'
  readonly ports?: readonly PortRange[]
  readonly networks?: readonly string[]
}

/** Returns whether a rule is about any traffic at all. */
export const isAboutAny = ({ protocol, ports, networks }: Traffic): boolean =>
  networks?.length !== 0 && (ports?.length !== 0 || !hasPorts(protocol))

const hasPorts = (protocol: Traffic['protocol']): boolean => protocol === 'tcp' || protocol === 'udp'

/** Returns the one form of a rule's ports, joined to the fewest ranges; undefined means any. */
export const canonicalPorts = ({ protocol, ports }: Traffic): readonly PortRange[] | undefined =>
  ports === undefined || !hasPorts(protocol) ? undefined : joinRanges(ports)

function joinRanges(ranges: readonly PortRange[]): readonly PortRange[] {
  const joined: PortRange[] = []
  for (const { first, last } of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = joined.at(-1)
    if (before === undefined || first > before.last + 1) joined.push({ first, last })
    else joined[joined.length - 1] = { first: before.first, last: Math.max(before.last, last) }
  }
  return joined
}

/**
 * Returns the networks that lie in no other of them. In the order of their first addresses, wider ones first, a network
 * lies in the last one that was kept, or in none. To compare each with each takes seconds for the rules of one guest.
 */
export function outermost(networks: readonly string[]): readonly string[] {
  const kept: string[] = []
  let covers: (address: Uint8Array) => boolean = () => false
  for (const { network, bytes } of [...new Set(networks)].map(startOf).toSorted(byStart)) {
    if (covers(bytes)) continue
    kept.push(network)
    covers = membersOf(network)
  }
  return kept.toSorted()
}

type Start = { readonly network: string; readonly bytes: Uint8Array; readonly prefix: number }

function startOf(network: string): Start {
  const [address = '', prefix] = network.split('/')
  return { network, bytes: parseAddress(address) ?? new Uint8Array(), prefix: Number(prefix) }
}

/** Families one after the other: the addresses of one lie in no network of the other. */
const byStart = (a: Start, b: Start): number =>
  a.bytes.length - b.bytes.length || Buffer.compare(a.bytes, b.bytes) || a.prefix - b.prefix

/** A chain of nftables and its statements, one rule each. */
export type Chain = { readonly name: string; readonly rules: readonly string[] }

/** A guest's rule in canonical form, and what becomes of the packets that it is about. */
export type Judgement = { readonly traffic: Traffic; readonly verdict: string }

/**
 * Returns the chains of a guest's own rules in their order, each chain before those that lead to it. `end` belongs to
 * the address of the other end. They have no anonymous sets, but one rule for each network or port: a table with
 * thousands of sets makes every transaction on it a hundred times slower. Only the first packet of a connection meets
 * these rules. If a rule has several networks and several ports, the ports have a chain of their own, so that their
 * numbers add up instead of multiplying.
 */
export function ruleChains(
  name: string,
  judgements: readonly Judgement[],
  options: { readonly end: 'saddr' | 'daddr'; readonly last?: string },
): readonly Chain[] {
  const chains: Chain[] = []
  const rules = judgements.flatMap(({ traffic, verdict }) =>
    clauses(traffic, options.end).flatMap(({ networks, what }) => {
      if (networks.length === 1 || what.length === 1) {
        return networks.flatMap((network) => what.map((content) => statement(network, content, verdict)))
      }
      const ports = {
        name: `${name}_${chains.length + 1}`,
        rules: what.map((port) => statement(port, verdict)),
      }
      chains.push(ports)
      return networks.map((network) => statement(network, `jump ${ports.name}`))
    }),
  )
  return [...chains, { name, rules: [...rules, ...(options.last === undefined ? [] : [options.last])] }]
}

/** Matches for the other end of a packet, and for its content; one of each must hold. */
type Clause = { readonly networks: readonly string[]; readonly what: readonly string[] }

const FAMILIES = {
  ipv4: { any: 'meta nfproto ipv4', header: 'ip', icmp: 'icmp' },
  ipv6: { any: 'meta nfproto ipv6', header: 'ip6', icmp: 'ipv6-icmp' },
} as const

function clauses(traffic: Traffic, end: 'saddr' | 'daddr'): readonly Clause[] {
  const { protocol, networks } = traffic
  if (networks === undefined && protocol !== 'icmp')
    return [{ networks: [''], what: contents(traffic, 'ipv4') }]
  return (['ipv4', 'ipv6'] as const)
    .map((family) => ({ networks: matches(networks, family, end), what: contents(traffic, family) }))
    .filter((clause) => clause.networks.length > 0)
}

function matches(
  networks: readonly string[] | undefined,
  family: 'ipv4' | 'ipv6',
  end: 'saddr' | 'daddr',
): readonly string[] {
  const { any, header } = FAMILIES[family]
  if (networks === undefined) return [any]
  return networks
    .filter((network) => networkFamily(network) === family)
    .map((network) => (network.endsWith('/0') ? any : `${header} ${end} ${network}`))
}

function contents({ protocol, ports }: Traffic, family: 'ipv4' | 'ipv6'): readonly string[] {
  if (protocol === 'any') return ['']
  if (protocol === 'icmp') return [`meta l4proto ${FAMILIES[family].icmp}`]
  return ports?.map((range) => `${protocol} dport ${portText(range)}`) ?? [`meta l4proto ${protocol}`]
}

const portText = ({ first, last }: PortRange): string => (first === last ? `${first}` : `${first}-${last}`)

const statement = (...parts: readonly string[]): string => parts.filter((part) => part !== '').join(' ')
