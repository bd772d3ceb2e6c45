import { limits } from '../../config/limits.ts'
import { GATEWAY_IPV4, GATEWAY_IPV6, DEVICE_PREFIX } from './tap.ts'
import { closedNetworks } from './guest-address.ts'
import { guestChains, RULE_MAPS, FROM_PREFIX, OTHER_SOURCE } from './guest-rule.ts'
import { REFUSED } from './inbound.ts'
import { DENIED } from './outbound.ts'
import type { GuestRule } from '../world/network-state.ts'
import type { Chain } from './rule-chains.ts'

/** Settings of the operator for all guests of the host. */
export type FirewallPolicy = {
  /**
   * Whether guests reach one another. If not, what one guest sends to another is dropped, whatever addresses they have.
   */
  readonly guestToGuest: boolean
  /** Verdict on connections that others open to a guest without rules of its own. */
  readonly inboundDefault: 'accept' | 'drop'
  /** Ports of the host that guests may open connections to, at the gateway's addresses only, e.g. a resolver. */
  readonly hostServices: readonly { readonly protocol: 'tcp' | 'udp'; readonly port: number }[]
  /** Families whose guests use the host's address when they leave by a device that does not belong to a guest. */
  readonly masquerade: readonly ('ipv4' | 'ipv6')[]
  /** Connections that a guest may have open, and as many that others may have open to it. */
  readonly connectionsMax: number
}

/** The sets that list which addresses may leave which device. */
export const GUEST_SETS = {
  guest_mac: { type: 'ether_addr', of: (rule) => rule.macAddress },
  guest_ipv4: { type: 'ipv4_addr', of: (rule) => rule.ipv4Address },
  guest_ipv6: { type: 'ipv6_addr', of: (rule) => rule.ipv6Address },
} as const satisfies Record<string, { type: string; of: (rule: GuestRule) => string | undefined }>

/** The sets that count what was dropped of a guest's packets, by device. Packets add the devices. */
export const DROP_SETS = ['spoofed_drops', 'inbound_drops'] as const
export type DropSet = (typeof DROP_SETS)[number]
export type DropCount = { readonly packets: number; readonly bytes: number }
export type Drops = Readonly<Record<DropSet, ReadonlyMap<string, DropCount>>>

/**
 * The sets in which the kernel counts a guest's connections, by device: those that it opens, and those opened to it.
 */
export const CONNECTION_SETS = ['connections_out', 'connections_in'] as const
type ConnectionSet = (typeof CONNECTION_SETS)[number]

/**
 * Returns the text for `nft -f` (nft(8)) that replaces the whole table `inet vmhostd` in one transaction. It declares
 * the table, so that it can be deleted even if it never existed; deletes it; and makes it again, with the guests'
 * counters as they were read. A packet sees the old table or the new one, never neither.
 *
 * The parts for guests are in sets and a map, so that a packet is looked up in one step on a host of any size. The
 * rules judge a packet from any device of our naming scheme. A device whose guest is in no set may send nothing.
 *
 * Drops are final. The tables of others still judge what passes here (nft(8), "chains").
 *
 * ARP bypasses the inet family. It does no harm on a routed point-to-point device, because of the settings of the tap:
 * the host learns from no request of a sender that it does not route there (arp_filter). The guest's entry in the
 * host's table is permanent and so ignores replies, and nothing else hears the guest.
 */
export function compileRuleset(policy: FirewallPolicy, guests: Iterable<GuestRule>, drops?: Drops): string {
  const rules = [...guests]
  const sets = Object.entries(GUEST_SETS).map(([name, { type }]) =>
    block(`set ${name}`, [
      `type ifname . ${type}`,
      ...elements(rules.flatMap((rule) => element(name, rule))),
    ]),
  )
  const connections = CONNECTION_SETS.map((name) => block(`set ${name}`, PACKET_SET))
  const counts = DROP_SETS.map((name) =>
    block(`set ${name}`, [
      ...PACKET_SET,
      ...elements(rules.flatMap(({ device }) => countText(device, drops?.[name].get(device)))),
    ]),
  )
  const maps = RULE_MAP_NAMES.map((map) =>
    block(`map ${map}`, [
      'type ifname : verdict',
      ...elements(rules.flatMap((rule) => mapElement(map, rule))),
    ]),
  )
  return `table inet vmhostd
delete table inet vmhostd
table inet vmhostd {
${[...sets, ...counts, ...connections, ...maps].join('')}${ENDED}${ANTI_SPOOFING}${GUEST_DESTINATION}${guestOpens(policy)}${FROM_GUESTS}${NEXT_HOPS}${toGuests(policy)}${hostGuard(policy)}${masquerade(policy)}${rules.flatMap(guestChains).map(chainText).join('')}}
`
}

/** A set that packets add devices to. Such a set needs a bound: more than a host can have guests. */
const PACKET_SET = ['type ifname', 'size 65535', 'flags dynamic']

function block(head: string, lines: readonly string[]): string {
  return `  ${head} {\n${lines.map((line) => `    ${line}\n`).join('')}  }\n`
}

export const chainText = ({ name, rules }: Chain): string => block(`chain ${name}`, rules)

/**
 * Returns a set of devices that have a rate each. A device that is silent for its time loses its rate,
 * and begins with a new one.
 */
const rateSet = (name: string): string => dynamicSet(name, 'ifname', '1m')

const dynamicSet = (name: string, type: string, timeout: string): string =>
  block(`set ${name}`, [`type ${type}`, 'size 65535', 'flags dynamic,timeout', `timeout ${timeout}`])

const elements = (texts: readonly string[]): readonly string[] =>
  texts.length === 0 ? [] : [`elements = { ${texts.join(', ')} }`]

/** Returns a guest's elements in one of {@link GUEST_SETS}. */
export function element(set: string, rule: GuestRule): readonly string[] {
  const value = GUEST_SETS[set as keyof typeof GUEST_SETS].of(rule)
  return value === undefined ? [] : [`"${rule.device}" . ${value}`]
}

export const RULE_MAP_NAMES = [
  'inbound',
  'outbound',
  'prefix',
] as const satisfies readonly (keyof typeof RULE_MAPS)[]

/** Returns a guest's elements in one of {@link RULE_MAPS}. */
export function mapElement(map: keyof typeof RULE_MAPS, rule: GuestRule): readonly string[] {
  const chain = RULE_MAPS[map](rule)
  return chain === undefined ? [] : [`"${rule.device}" : goto ${chain}`]
}

const countText = (device: string, count: DropCount | undefined): readonly string[] =>
  count === undefined ? [] : [`"${device}" counter packets ${count.packets} bytes ${count.bytes}`]

const count = (set: DropSet, key: 'iifname' | 'oifname'): string => `update @${set} { ${key} counter }`

/**
 * Drops the first packet of a connection if the guest has no connection left. The kernel leaves ended connections of
 * TCP out when it counts, but keeps them in its table ({@link ENDED}).
 * It counts from zero after the whole table was written.
 */
const bound = (set: ConnectionSet, key: 'iifname' | 'oifname', max: number): string =>
  `ct state new add @${set} { ${key} ct count over ${max} } counter drop comment "over the bound of ${set}"`

/**
 * How long the kernel tracks an ended TCP connection of a guest (TIME_WAIT, CLOSE), for its last packets. TCP sends one
 * again after 0.2 s, and once more after twice that (TCP_RTO_MIN).
 */
const ENDED_CONNECTION_SECONDS = 1

const ENDED_FAMILIES = { ipv4: 'ip', ipv6: 'ip6' } as const

/**
 * Lets the kernel forget an ended connection of TCP soon. No bound counts these, and by default the kernel keeps them
 * for up to two minutes: a guest that opens and ends 2,200 connections a second would fill a table of 262,144. With a
 * policy the kernel removes them in its next round, after at most a minute (gc_worker of
 * net/netfilter/nf_conntrack_core.c), or when a new connection meets them in its place of the hash table. A connection
 * has two places, so that such removals keep up with any rate once these connections fill half of the table.
 *
 * The other states keep the kernel's times. Only the first packet of a connection can be given a policy, and each
 * policy has one family. Connections that are open when the whole table is written again lose theirs.
 */
const ENDED = `${(['ipv4', 'ipv6'] as const)
  .map((family) =>
    block(`ct timeout ended_${family}`, [
      'protocol tcp',
      `l3proto ${ENDED_FAMILIES[family]}`,
      `policy = { time_wait : ${ENDED_CONNECTION_SECONDS}, close : ${ENDED_CONNECTION_SECONDS} }`,
    ]),
  )
  .join('')}${block(
  'chain forget_when_ended',
  (['ipv4', 'ipv6'] as const).map(
    (family) => `meta nfproto ${family} meta l4proto tcp ct timeout set "ended_${family}"`,
  ),
)}`

const FROM_GUEST = `iifname "${DEVICE_PREFIX}*"`
const TO_GUEST = `oifname "${DEVICE_PREFIX}*"`

/**
 * Runs before connection tracking (priority -200), so that a forged packet leaves no trace in its table, and before the
 * kernel puts fragments together (-400). It joins those of all devices, and the whole counts as from the device of the
 * last one. So a fragment that is not of the guest must not come so far.
 *
 * A guest sends from its own addresses and its prefix alone, and to no closed address. Neighbour discovery also comes
 * from a link-local address of the guest's choice, or from none while it tests an address (RFC 4862, 5.4.2). Hop limit
 * 255 proves that no router forwarded it (RFC 4861, 7.1).
 *
 * The host remembers each such sender, and each that asks from the prefix, so their rate is bounded. The kernel has
 * 1,024 places for all guests (gc_thresh3), and frees those that are older than 5 s when it runs short of them. A guest
 * takes at most 15 of them in that time, and 5 for long: 68 guests at once, or 205 for long, would fill all. An honest
 * guest tests each of its addresses once, and then asks for its gateway at most once a second (RFC 4861,
 * RETRANS_TIMER).
 *
 * Other honest traffic from link-local addresses or none, such as multicast groups or a search for a DHCP server, is
 * dropped and not counted against the guest.
 */
const ANTI_SPOOFING = `${rateSet('discovery_rate')}  chain anti_spoofing {
    type filter hook prerouting priority -450; policy accept;
    ${FROM_GUEST} jump from_guest
  }
  chain from_guest {
    iifname . ether saddr != @guest_mac ${count('spoofed_drops', 'iifname')} counter drop comment "not the MAC address of the guest"
    iifname . ip saddr @guest_ipv4 goto guest_destination
    iifname . ip6 saddr @guest_ipv6 goto guest_destination
    iifname vmap @prefix
    goto ${OTHER_SOURCE}
  }
  chain ${FROM_PREFIX} {
    icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } jump discovery
    goto guest_destination
  }
  chain ${OTHER_SOURCE} {
    ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 saddr { ::, fe80::/10 } goto discovery
    ip6 saddr { ::, fe80::/10 } counter drop comment "from a link-local address"
    ip saddr 0.0.0.0 counter drop comment "from no address"
    ${count('spoofed_drops', 'iifname')} counter drop comment "not an address of the guest"
  }
  chain discovery {
    update @discovery_rate { iifname limit rate over 1/second burst 10 packets } counter drop comment "too many neighbours"
  }
`

const closed = (family: 'ipv4' | 'ipv6'): string => `{ ${closedNetworks(family).join(', ')} }`

/**
 * Judges every packet, so that a connection that was opened before these rules ends with them.
 *
 * The kernel puts the fragments of all guests together in one memory, for each family. One that waits for the rest of
 * its datagram stays there for half a minute or longer, and when the memory is full, the kernel drops the fragments of
 * all. So their rate is bounded, whatever their destination. Nothing shows before whether the rest will come.
 */
const GUEST_DESTINATION = `${rateSet('fragment_rate')}  chain guest_fragment {
    update @fragment_rate { iifname limit rate over ${limits.fragmentsPerSecond}/second burst ${limits.fragmentsAtOnce} packets } counter drop comment "too many fragments"
  }
  chain guest_destination {
    ip frag-off & 0x3fff != 0 jump guest_fragment
    exthdr frag exists jump guest_fragment
    ip daddr ${GATEWAY_IPV4} return
    ip6 daddr ${GATEWAY_IPV6} return
    ip daddr ${closed('ipv4')} counter drop comment "to a closed IPv4 address"
    ip6 daddr ${closed('ipv6')} counter drop comment "to a closed IPv6 address"
  }
`

/**
 * Guards the host against what a guest opens, before another table may redirect it to another address (dstnat, -100).
 * From there it would be forwarded, and would never reach the input hook.
 */
const guestOpens = ({ connectionsMax }: FirewallPolicy): string => `  chain before_redirects {
    type filter hook prerouting priority mangle; policy accept;
    ${FROM_GUEST} jump guest_opens
  }
  chain guest_opens {
    ct state established,related return
    fib daddr type { local, broadcast, anycast } jump guest_to_host
    ct state new jump forget_when_ended
    ${bound('connections_out', 'iifname', connectionsMax)}
  }
`

/**
 * Judges what a guest opens to others, before the rules of a guest to which it goes. An `accept` here ends this chain
 * alone. Replies pass, and so do connections that were open when the guest's rules were replaced.
 */
const FROM_GUESTS = `  chain from_guests {
    type filter hook forward priority filter - 10; policy accept;
    ${FROM_GUEST} goto opened_by_guest
  }
  chain opened_by_guest {
    ct state established,related accept
    iifname vmap @outbound
  }
  chain ${DENIED} {
    counter drop comment "denied by the guest's outbound rules"
  }
`

/**
 * Judges what is forwarded to a guest. Traffic from the host itself and neighbour discovery are not forwarded, so they
 * never come here. Replies to what the guest opened pass, and so do the ICMP errors that belong to them. Connections
 * that were open when the guest's rules were replaced pass too. What is let in counts as open to the guest.
 */
function toGuests({ guestToGuest, inboundDefault, connectionsMax }: FirewallPolicy): string {
  const apart = `${FROM_GUEST} counter drop comment "from guest to guest"`
  return `  chain to_guests {
    type filter hook forward priority filter; policy accept;
    ${TO_GUEST} goto to_guest
  }
${block('chain to_guest', [
  ...(guestToGuest ? [] : [apart]),
  'ct state established,related accept',
  'oifname vmap @inbound',
  ...(inboundDefault === 'drop' ? [`goto ${REFUSED}`] : []),
])}  chain passed {
    type filter hook forward priority filter + 10; policy accept;
    ${TO_GUEST} ct state new goto passed_to_guest
    ${FROM_GUEST} oifname != "${DEVICE_PREFIX}*" goto passed_from_guest
  }
  chain passed_to_guest {
    jump forget_when_ended
    ${bound('connections_in', 'oifname', connectionsMax)}
  }
  chain ${REFUSED} {
    ${count('inbound_drops', 'oifname')} counter drop comment "not open to others"
  }
`
}

const nextHops = (family: 'ipv4' | 'ipv6'): string =>
  dynamicSet(`next_hops_${family}`, `ifname . ${family}_addr`, `${limits.nextHopLookupSeconds}s`)

/**
 * Bounds the neighbours that the host looks for because of a guest. A guest that sends to each address of the network
 * between this host and its router would fill the kernel's table, and then the host and other guests find no neighbour
 * (`neighbour table overflow`). Packets that go by a router have one hop, and an answered connection needs no look-up.
 *
 * A hop takes one place for as long as it is in the set: a packet does not renew its time there. If the set is full,
 * each first packet counts.
 */
const NEXT_HOPS = `${nextHops('ipv4')}${nextHops('ipv6')}${rateSet('next_hop_rate')}  chain passed_from_guest {
    ct state established,related return
    iifname . rt ip nexthop @next_hops_ipv4 return
    iifname . rt ip6 nexthop @next_hops_ipv6 return
    update @next_hop_rate { iifname limit rate over ${limits.nextHopsPerSecond}/second burst ${limits.nextHopsAtOnce} packets } counter drop comment "too many next hops"
    add @next_hops_ipv4 { iifname . rt ip nexthop }
    add @next_hops_ipv6 { iifname . rt ip6 nexthop }
  }
`

/**
 * Lets a guest reach only its gateway on the host, and what the operator offers. Allowed packets return. Each packet of
 * a connection that the guest opened is judged, because it may have been opened while another program had removed the
 * table.
 */
function hostGuard({ hostServices }: FirewallPolicy): string {
  const services = hostServices.map(({ protocol, port }) => `${protocol} . ${port}`).join(', ')
  const offered = (family: 'ip' | 'ip6', gateway: string): string =>
    `    ${family} daddr ${gateway} meta l4proto . th dport { ${services} } return\n`
  return `  chain host_guard {
    type filter hook input priority filter; policy accept;
    ${FROM_GUEST} jump guest_to_host
  }
  chain guest_to_host {
    ct state established ct direction reply return
    ct state related return
    ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } return
    ip daddr ${GATEWAY_IPV4} icmp type echo-request return
    ip6 daddr ${GATEWAY_IPV6} icmpv6 type echo-request return
${services === '' ? '' : offered('ip', GATEWAY_IPV4) + offered('ip6', GATEWAY_IPV6)}    counter drop comment "from guest to host"
  }
`
}

function masquerade({ masquerade: families }: FirewallPolicy): string {
  if (families.length === 0) return ''
  const only = families.includes('ipv4') && families.includes('ipv6') ? '' : `meta nfproto ${families[0]} `
  return `  chain leaving {
    type nat hook postrouting priority srcnat; policy accept;
    ${only}${FROM_GUEST} oifname != "${DEVICE_PREFIX}*" masquerade
  }
`
}
