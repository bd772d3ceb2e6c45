import { networkFamily } from './cidr.ts'
import type { AddressFamily } from './guest-address.ts'

/** Networks of one link alone (RFC 3927; RFC 4291, 2.5.6). Most clouds serve metadata at 169.254.169.254. */
export const LINK_LOCAL_NETWORKS = ['169.254.0.0/16', 'fe80::/10'] as const

/**
 * Networks at which clouds serve metadata, besides link-local addresses: AWS and Google over IPv6, Azure's wire server,
 * Alibaba, Oracle. They give every machine its own credentials. A guest would get those of the host that forwards its
 * packets.
 */
export const METADATA_NETWORKS = [
  'fd00:ec2::/32',
  'fd20:ce::/32',
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
