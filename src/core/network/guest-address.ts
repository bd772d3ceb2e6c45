import { err, ok } from '../../lib/result.ts'
import { formatAddress, parseAddress } from './address.ts'
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
  return refused === undefined ? ok(formatAddress(bytes)) : err(`is ${refused.what}`)
}

function contains({ prefix, bits }: Range, bytes: Uint8Array): boolean {
  for (let bit = 0; bit < bits; bit += 8) {
    const mask = 0xff & (0xff << Math.max(0, 8 - (bits - bit)))
    const index = bit / 8
    if (((bytes[index] ?? 0) & mask) !== ((prefix[index] ?? 0) & mask)) return false
  }
  return true
}
