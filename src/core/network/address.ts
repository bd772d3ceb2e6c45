import { err, ok } from '../../lib/result.ts'
import type { Result } from '../../lib/result.ts'

const IPV4_BYTES = 4
const IPV6_BYTES = 16

/**
 * Returns the bytes of an address in network order, 4 or 16 of them; undefined if `text` is not one. As strict as
 * inet_pton(3).
 */
export function parseAddress(text: string): Uint8Array | undefined {
  return text.includes(':') ? parseIpv6(text) : parseIpv4(text)
}

/** Returns the one text of an address: dotted decimal, or RFC 5952, the form that inet_ntop(3) and `ip` print. */
export function formatAddress(bytes: Uint8Array): string {
  return bytes.length === IPV4_BYTES ? bytes.join('.') : formatIpv6(bytes)
}

/**
 * Returns the canonical text of an address, so that equal addresses are equal strings; undefined if `text` is not one.
 */
export function canonicalAddress(text: string): string | undefined {
  const bytes = parseAddress(text)
  return bytes === undefined ? undefined : formatAddress(bytes)
}

function parseIpv4(text: string): Uint8Array | undefined {
  const parts = text.split('.')
  if (parts.length !== IPV4_BYTES) return undefined
  // A leading zero is refused: some programs read such a number as octal.
  if (!parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) <= 255)) return undefined
  return Uint8Array.from(parts, Number)
}

function parseIpv6(text: string): Uint8Array | undefined {
  const halves = text.split('::')
  if (halves.length > 2) return undefined
  const head = parseGroups(halves[0] ?? '', halves.length === 1)
  const tail = parseGroups(halves[1] ?? '', true)
  if (head === undefined || tail === undefined) return undefined
  const zeros = IPV6_BYTES - head.length - tail.length
  // `::` stands for at least one group.
  if (halves.length === 1 ? zeros !== 0 : zeros < 2) return undefined
  return Uint8Array.from([...head, ...Array<number>(zeros).fill(0), ...tail])
}

/**
 * Returns the bytes of groups joined by colons. If the text ends the whole address, the last group may be an IPv4
 * address.
 */
function parseGroups(text: string, last: boolean): readonly number[] | undefined {
  if (text === '') return []
  const bytes: number[] = []
  const groups = text.split(':')
  for (const [index, group] of groups.entries()) {
    if (/^[0-9a-fA-F]{1,4}$/.test(group)) {
      const value = Number.parseInt(group, 16)
      bytes.push(value >> 8, value & 0xff)
      continue
    }
    const ipv4 = last && index === groups.length - 1 ? parseIpv4(group) : undefined
    if (ipv4 === undefined) return undefined
    bytes.push(...ipv4)
  }
  return bytes
}

function formatIpv6(bytes: Uint8Array): string {
  const groups = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0))
  const isIpv4Mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (isIpv4Mapped) return `::ffff:${bytes.subarray(12).join('.')}`
  const { start, length } = longestZeroRun(groups)
  const hex = groups.map((group) => group.toString(16))
  if (length < 2) return hex.join(':')
  return `${hex.slice(0, start).join(':')}::${hex.slice(start + length).join(':')}`
}

/** Returns the first of the longest runs of zero groups (RFC 5952, 4.2.3). */
function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 }
  let start = 0
  for (const [index, group] of groups.entries()) {
    if (group !== 0) start = index + 1
    else if (index + 1 - start > best.length) best = { start, length: index + 1 - start }
  }
  return best
}

/** The first address of a network, and how many leading bits all its addresses share. */
type Network = { readonly bytes: Uint8Array; readonly prefix: number }

/**
 * Returns the canonical text of a network in CIDR form (RFC 4632; RFC 4291, 2.3), so that equal networks are equal
 * strings: `192.0.2.0/24`, `2001:db8::/32`. An address alone is not a network. The error is a phrase that can follow
 * what was read.
 */
export function parseNetwork(text: string): Result<string, string> {
  const read = split(text)
  if (read === undefined) return err('is not a network in CIDR form, e.g. 192.0.2.0/24 or 2001:db8::/32')
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
  const bytes = parseAddress(address)
  return bytes !== undefined && membersOf(network)(bytes)
}

/** Returns the test whether an address, in network order, lies in a network, as {@link networkContains} judges it. */
export function membersOf(network: string): (address: Uint8Array) => boolean {
  const read = split(network)
  if (read === undefined) return () => false
  const { bytes, prefix } = read
  const [whole, mask] = [prefix >> 3, 0xff & ~(0xff >> (prefix & 7))]
  return (address) =>
    address.length === bytes.length &&
    bytes.every((byte, index) => {
      if (index < whole) return address[index] === byte
      return index > whole || (((address[index] ?? 0) ^ byte) & mask) === 0
    })
}

/** Returns the family of a network that {@link parseNetwork} gave. */
export const networkFamily = (network: string): 'ipv4' | 'ipv6' => (network.includes(':') ? 'ipv6' : 'ipv4')

/** Returns whether all addresses of the second network lie in the first; both as {@link parseNetwork} gave them. */
export function networkCovers(network: string, other: string): boolean {
  const [address = '', prefix] = other.split('/')
  return Number(network.split('/')[1]) <= Number(prefix) && networkContains(network, address)
}

/** Returns whether two networks have an address in common; both as {@link parseNetwork} gave them. */
export const networksOverlap = (a: string, b: string): boolean => networkCovers(a, b) || networkCovers(b, a)

function split(text: string): Network | undefined {
  const [, address = '', prefix = ''] = /^([^/]+)\/(0|[1-9][0-9]{0,2})$/.exec(text) ?? []
  const bytes = parseAddress(address)
  return bytes === undefined ? undefined : { bytes, prefix: Number(prefix) }
}

const masked = (bytes: Uint8Array, prefix: number): Uint8Array =>
  bytes.map((byte, index) => byte & ~(0xff >> Math.max(0, Math.min(8, prefix - 8 * index))))
