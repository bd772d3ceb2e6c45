import { err, ok } from '../../lib/result.ts'
import { limits } from '../../config/limits.ts'
import {
  formatAddress,
  networkContains,
  networkFamily,
  networksOverlap,
  parseAddress,
  parseNetwork,
} from './address.ts'
import { GATEWAY_IPV4 } from './tap.ts'
import type { Result } from '../../lib/result.ts'

export type AddressFamily = 'ipv4' | 'ipv6'

type Range = { readonly prefix: readonly number[]; readonly bits: number; readonly what: string }

/** Ranges that no guest can have: RFC 6890 and what this host uses on every tap. Documentation ranges are allowed. */
const REFUSED: Readonly<Record<AddressFamily, readonly Range[]>> = {
  ipv4: [
    { prefix: [0], bits: 8, what: '"this network" (0.0.0.0/8)' },
    { prefix: [127], bits: 8, what: 'loopback (127.0.0.0/8)' },
    {
      prefix: [169, 254],
      bits: 16,
      what: 'link-local (169.254.0.0/16), where the gateway of every guest is',
    },
    { prefix: [224], bits: 4, what: 'multicast (224.0.0.0/4)' },
    { prefix: [240], bits: 4, what: 'reserved (240.0.0.0/4)' },
  ],
  ipv6: [
    { prefix: Array<number>(16).fill(0), bits: 128, what: 'the unspecified address' },
    { prefix: [...Array<number>(15).fill(0), 1], bits: 128, what: 'loopback' },
    { prefix: Array<number>(12).fill(0), bits: 96, what: 'an IPv4-compatible address (::/96)' },
    {
      prefix: [...Array<number>(10).fill(0), 0xff, 0xff],
      bits: 96,
      what: 'an IPv4-mapped address (::ffff:0:0/96); give the IPv4 address instead',
    },
    { prefix: [0xfe, 0x80], bits: 10, what: 'link-local (fe80::/10), where the gateway of every guest is' },
    { prefix: [0xff], bits: 8, what: 'multicast (ff00::/8)' },
  ],
}

/**
 * Returns the canonical text of an address that a guest may have. Otherwise returns why it may not, as a phrase that
 * follows the address: "is multicast (224.0.0.0/4)".
 */
export function parseGuestAddress(family: AddressFamily, text: string): Result<string, string> {
  const bytes = parseAddress(text)
  if (bytes === undefined || bytes.length !== (family === 'ipv4' ? 4 : 16)) {
    return err(`is not an ${family === 'ipv4' ? 'IPv4' : 'IPv6'} address`)
  }
  const refused = REFUSED[family].find((range) => contains(range, bytes))
  if (refused !== undefined) return err(`is ${refused.what}`)
  const address = formatAddress(bytes)
  // The host routes a guest's address to the guest, and its own agent may ask there for credentials.
  const closed = closedNetworks(family).find((network) => networkContains(network, address))
  return closed === undefined ? ok(address) : err(`is in ${closed}, which is closed to guests`)
}

/**
 * Returns the canonical text of the address of a name server that guests can reach: their IPv4 gateway, or an address
 * that a guest may have. The error is a phrase that follows the address.
 */
export function parseNameServer(text: string): Result<string, string> {
  if (text === GATEWAY_IPV4) return ok(text)
  if (parseAddress(text) === undefined)
    return err('is not an address: give the address of the name server, not a name')
  return parseGuestAddress(text.includes(':') ? 'ipv6' : 'ipv4', text)
}

/**
 * Returns the canonical text of an IPv6 network that may be routed to a guest. Otherwise returns why it may not, as a
 * phrase that follows the network.
 */
export function parseGuestPrefix(text: string): Result<string, string> {
  const parsed = parseNetwork(text)
  if (!parsed.ok) return parsed
  const network = parsed.value
  if (networkFamily(network) !== 'ipv6') return err('is not an IPv6 network, e.g. 2001:db8:1::/64')
  const [address = '', bits = ''] = network.split('/')
  const { guestPrefixBitsMin: least, guestPrefixBitsMax: most } = limits
  if (Number(bits) < least || Number(bits) > most) return err(`must have a length from ${least} to ${most}`)
  const bytes = parseAddress(address) ?? new Uint8Array(16)
  const refused = REFUSED.ipv6.find(({ prefix, bits: fixed }) =>
    agree(prefix, bytes, Math.min(fixed, Number(bits))),
  )
  if (refused !== undefined) return err(`overlaps ${refused.what}`)
  const closed = closedNetworks('ipv6').find((one) => networksOverlap(one, network))
  return closed === undefined ? parsed : err(`overlaps ${closed}, which is closed to guests`)
}

const contains = ({ prefix, bits }: Range, bytes: Uint8Array): boolean => agree(prefix, bytes, bits)

/** Returns whether the first `bits` of two addresses are the same. Bytes that are left out are zero. */
function agree(prefix: readonly number[], bytes: Uint8Array, bits: number): boolean {
  for (let bit = 0; bit < bits; bit += 8) {
    const mask = 0xff & (0xff << Math.max(0, 8 - (bits - bit)))
    const index = bit / 8
    if (((bytes[index] ?? 0) & mask) !== ((prefix[index] ?? 0) & mask)) return false
  }
  return true
}

/** Networks of one link alone (RFC 3927; RFC 4291, 2.5.6). Most clouds serve metadata at 169.254.169.254. */
export const LINK_LOCAL_NETWORKS = ['169.254.0.0/16', 'fe80::/10'] as const

/**
 * Networks at which clouds serve metadata, besides link-local addresses. Over IPv6: AWS, Google, Oracle, Alibaba,
 * Scaleway, Akamai. Over IPv4: Azure's wire server, Alibaba, Oracle. They give every machine its own credentials. A
 * guest would get those of the host that forwards its packets.
 */
export const METADATA_NETWORKS = [
  'fd00:ec2::/32',
  'fd20:ce::/32',
  'fd00:c1::a9fe:a9fe/128',
  'fd00:100::100:200/128',
  'fd00:42::42/128',
  'fd00:a9fe:a9fe::1/128',
  '168.63.129.16/32',
  '100.100.100.200/32',
  '192.0.0.192/32',
] as const

/** The prefix by which a translator gives IPv6 guests the IPv4 Internet (RFC 6052). */
const NAT64_PREFIX = '64:ff9b::'
const NAT64_PREFIX_BITS = 96

/**
 * Returns the networks that guests never reach, except for their gateway. The IPv6 list includes IPv4 networks as a
 * translator names them.
 */
export function closedNetworks(family: AddressFamily): readonly string[] {
  const all = [...LINK_LOCAL_NETWORKS, ...METADATA_NETWORKS]
  const own = all.filter((network) => networkFamily(network) === family)
  return family === 'ipv4' ? own : [...own, ...closedNetworks('ipv4').map(translated)]
}

function translated(network: string): string {
  const [address, bits] = network.split('/')
  return `${NAT64_PREFIX}${address}/${NAT64_PREFIX_BITS + Number(bits)}`
}
