import { err, ok } from '../../lib/result.ts'
import type { Result } from '../../lib/result.ts'
import { formatAddress, parseAddress } from './address.ts'

/** The first address of a network, and how many leading bits all its addresses share. */
type Network = { readonly bytes: Uint8Array; readonly prefix: number }

/**
 * Returns the canonical text of a network in CIDR form (RFC 4632; RFC 4291, 2.3), so that equal networks are equal
 * strings: `192.0.2.0/24`, `2001:db8::/32`. An address alone is not a network. The error is a phrase that can follow
 * what was read.
 */
export function parseNetwork(text: string): Result<string, string> {
  const read = split(text)
  if (read === undefined) return err('is no network in CIDR form, e.g. 192.0.2.0/24 or 2001:db8::/32')
  const { bytes, prefix } = read
  const longest = bytes.length * 8
  if (prefix > longest) return err(`has a prefix longer than the ${longest} bits of its address`)
  const first = masked(bytes, prefix)
  const network = `${formatAddress(first)}/${prefix}`
  if (first.some((byte, index) => byte !== bytes[index])) {
    return err(`has bits set after its prefix; the network is ${network}`)
  }
  return ok(network)
}

/**
 * Returns whether an address lies in a network; false if either is not valid. An IPv4 address is in no IPv6 network.
 */
export function networkContains(network: string, address: string): boolean {
  const read = split(network)
  const bytes = parseAddress(address)
  if (read === undefined || bytes?.length !== read.bytes.length) return false
  const first = masked(read.bytes, read.prefix)
  return masked(bytes, read.prefix).every((byte, index) => byte === first[index])
}

/** Returns the family of a network that {@link parseNetwork} gave. */
export const networkFamily = (network: string): 'ipv4' | 'ipv6' => (network.includes(':') ? 'ipv6' : 'ipv4')

/** Returns whether all addresses of the second network lie in the first; both as {@link parseNetwork} gave them. */
export function networkCovers(network: string, other: string): boolean {
  const [address = '', prefix] = other.split('/')
  return Number(network.split('/')[1]) <= Number(prefix) && networkContains(network, address)
}

function split(text: string): Network | undefined {
  const [, address = '', prefix = ''] = /^([^/]+)\/(0|[1-9][0-9]{0,2})$/.exec(text) ?? []
  const bytes = parseAddress(address)
  return bytes === undefined ? undefined : { bytes, prefix: Number(prefix) }
}

const masked = (bytes: Uint8Array, prefix: number): Uint8Array =>
  bytes.map((byte, index) => byte & ~(0xff >> Math.max(0, Math.min(8, prefix - 8 * index))))
