import { GATEWAY_IPV4, GATEWAY_IPV6 } from './tap.ts'
import { DEVICE_PREFIX } from './device-name.ts'
import type { GuestRule } from './guest-rule.ts'

/** What the operator decides for all guests of the host. */
export type FirewallPolicy = {
  /** Guests reach one another. Off: what one guest sends to another is dropped, whatever addresses they have. */
  readonly guestToGuest: boolean
  /** Ports of the host, at the gateway's addresses only, that guests may open connections to, e.g. a resolver. */
  readonly hostServices: readonly { readonly protocol: 'tcp' | 'udp'; readonly port: number }[]
  /** Families whose guests take the host's address when they leave by a device that is no guest's. */
  readonly masquerade: readonly ('ipv4' | 'ipv6')[]
}

/** The sets that say which addresses may come out of which device. */
export const GUEST_SETS = {
  guest_mac: { type: 'ether_addr', of: (rule) => rule.macAddress },
  guest_ipv4: { type: 'ipv4_addr', of: (rule) => rule.ipv4Address },
  guest_ipv6: { type: 'ipv6_addr', of: (rule) => rule.ipv6Address },
} as const satisfies Record<string, { type: string; of: (rule: GuestRule) => string | undefined }>

/**
 * The text for `nft -f` (nft(8)) that replaces the whole table `inet vmhostd` in one transaction: declared, so that it
 * can be deleted where it never was; deleted; made anew. A packet sees the old table or the new, never neither.
 *
 * What is said of guests stands in sets, so that a packet is looked up in one step on a host of any size. A packet from
 * any device of our naming scheme is judged: one whose guest is in no set may send nothing.
 *
 * Drops are final; what passes here is still judged by the tables of others (nft(8), "chains").
 *
 * ARP passes by the inet family. It can do no harm on a routed point-to-point device: the guest's entry in the host's
 * table is permanent and so deaf to replies, and nobody else hears the guest.
 */
export function compileRuleset(policy: FirewallPolicy, guests: Iterable<GuestRule>): string {
  const rules = [...guests]
  const sets = Object.entries(GUEST_SETS).map(([name, { type }]) => {
    const elements = elementsOf(name as GuestSet, rules)
    const listed = elements.length === 0 ? '' : `\n    elements = { ${elements.join(', ')} }`
    return `  set ${name} {\n    type ifname . ${type}${listed}\n  }\n`
  })
  return `table inet vmhostd
delete table inet vmhostd
table inet vmhostd {
${sets.join('')}${ANTI_SPOOFING}${isolation(policy)}${hostGuard(policy)}${masquerade(policy)}}
`
}

/** The text for `nft -f` that adds guests to a table which is otherwise as it shall be; four times as fast. */
export function compileAdditions(guests: readonly GuestRule[]): string {
  return Object.keys(GUEST_SETS)
    .map((name) => ({ name, elements: elementsOf(name as GuestSet, guests) }))
    .filter(({ elements }) => elements.length > 0)
    .map(({ name, elements }) => `add element inet vmhostd ${name} { ${elements.join(', ')} }\n`)
    .join('')
}

type GuestSet = keyof typeof GUEST_SETS

function elementsOf(set: GuestSet, guests: readonly GuestRule[]): readonly string[] {
  return guests.flatMap((rule) => {
    const value = GUEST_SETS[set].of(rule)
    return value === undefined ? [] : [`"${rule.device}" . ${value}`]
  })
}

const FROM_GUEST = `iifname "${DEVICE_PREFIX}*"`
const TO_GUEST = `oifname "${DEVICE_PREFIX}*"`

/**
 * Before connection tracking (priority -200), so that a made-up packet leaves no trace in its table.
 *
 * A guest sends from its own addresses alone. Neighbour discovery also comes from a link-local address of the guest's
 * choice, or from none while it tests an address (RFC 4862, 5.4.2); hop limit 255 says that no router passed it on
 * (RFC 4861, 7.1). The host remembers each such sender, so their rate is bounded.
 */
const ANTI_SPOOFING = `  set discovery_rate {
    type ifname
    size 65535
    flags dynamic,timeout
    timeout 1m
  }
  chain anti_spoofing {
    type filter hook prerouting priority raw; policy accept;
    ${FROM_GUEST} jump from_guest
  }
  chain from_guest {
    iifname . ether saddr != @guest_mac counter drop comment "not the MAC address of the guest"
    iifname . ip saddr @guest_ipv4 return
    iifname . ip6 saddr @guest_ipv6 return
    ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 saddr { ::, fe80::/10 } goto discovery
    counter drop comment "not an address of the guest"
  }
  chain discovery {
    update @discovery_rate { iifname limit rate over 5/second burst 20 packets } counter drop comment "too many neighbours"
  }
`

function isolation({ guestToGuest }: FirewallPolicy): string {
  if (guestToGuest) return ''
  return `  chain isolation {
    type filter hook forward priority filter; policy accept;
    ${FROM_GUEST} ${TO_GUEST} counter drop comment "from guest to guest"
  }
`
}

/** A guest has no business with the host beyond finding its gateway, and what the operator offers. */
function hostGuard({ hostServices }: FirewallPolicy): string {
  const services = hostServices.map(({ protocol, port }) => `${protocol} . ${port}`).join(', ')
  const offered = (family: 'ip' | 'ip6', gateway: string): string =>
    `    ${family} daddr ${gateway} meta l4proto . th dport { ${services} } accept\n`
  return `  chain host_guard {
    type filter hook input priority filter; policy accept;
    ${FROM_GUEST} jump guest_to_host
  }
  chain guest_to_host {
    ct state established,related accept
    ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    ip daddr ${GATEWAY_IPV4} icmp type echo-request accept
    ip6 daddr ${GATEWAY_IPV6} icmpv6 type echo-request accept
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
