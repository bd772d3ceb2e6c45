import { limits } from '../../config/limits.ts'
import { err, ok } from '../../lib/result.ts'
import { canonicalAddress, formatAddress, parseAddress, networkContains } from '../network/address.ts'
import { LINK_LOCAL_NETWORKS, METADATA_NETWORKS } from '../network/guest-address.ts'
import type { Result } from '../../lib/result.ts'
import type { SignedUrl } from './signed-url.ts'

/** Decides from where this host may fetch images, and to where it may send snapshots, for a controller. */
export type OutboundPolicy = {
  readonly allowHttp: boolean
  /** Host names in lower case; `*.` before a name means all names below it. Any host if empty. */
  readonly allowedHosts: readonly string[]
  /** Networks in canonical CIDR form that are allowed although they are refused otherwise. */
  readonly allowedNetworks: readonly string[]
  /** Networks of guests, refused. */
  readonly guestRanges: readonly string[]
}

/**
 * Networks that no URL may lead to, each with a word for it (IANA's registries of special-purpose addresses, RFC 6890).
 */
const REFUSED: readonly (readonly [network: string, word: string])[] = [
  ['0.0.0.0/8', 'an unspecified address'],
  ['127.0.0.0/8', 'a loopback address'],
  ...LINK_LOCAL_NETWORKS.map((network) => [network, 'a link-local address'] as const),
  ...METADATA_NETWORKS.map((network) => [network, "a cloud's metadata service"] as const),
  ['224.0.0.0/4', 'a multicast address'],
  ['240.0.0.0/4', 'a broadcast or reserved address'],
  ['::/128', 'an unspecified address'],
  ['::1/128', 'a loopback address'],
  ['ff00::/8', 'a multicast address'],
  ['fec0::/10', 'a site-local address'],
  ['192.0.0.0/24', 'a reserved address'],
  // Other ways to an IPv4 address. A network chooses their form for itself (RFC 8215), or they are not in use (RFC
  // 4291, 2.5.5.1; RFC 7526).
  ['64:ff9b:1::/48', 'a NAT64 address of a local network'],
  ['::/96', 'an IPv4-compatible address'],
  ['2002::/16', 'a 6to4 address'],
]

/** IPv6 forms of IPv4 addresses, which could name a refused one: mapped (RFC 4291, 2.5.5.2) and NAT64 (RFC 6052). */
const EMBEDDING = ['::ffff:0.0.0.0/96', '64:ff9b::/96'] as const

/**
 * Returns the URL, if its scheme and host are allowed. The addresses of its name are judged when a connection is made.
 * The reason of a refusal follows "its URL", and never repeats the URL, which may be signed.
 */
export function checkUrl(text: string, policy: OutboundPolicy): Result<URL, string> {
  const url = URL.parse(text)
  if (url === null) return err('is not an absolute URL')
  if (url.protocol === 'http:' && !policy.allowHttp)
    return err('has http:, which is not allowed on this host')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return err('has a scheme other than https:')
  const host = hostOf(url)
  if (host.length > limits.urlHostCharactersMax) return err(LONG_HOST)
  if (!isAllowedHost(host, policy.allowedHosts)) {
    return err(`names ${host}, which is not among the allowed hosts of this host`)
  }
  const refused = canonicalAddress(host) === undefined ? undefined : refusedAddress(host, policy)
  return refused === undefined ? ok(url) : err(`names ${refused}, to which this host may not connect`)
}

/** Returns why a signed URL is not allowed, in the words of {@link checkUrl}; undefined if it is allowed. */
export function refusedUrl(url: SignedUrl, policy: OutboundPolicy): string | undefined {
  const checked = checkUrl(url.reveal(), policy)
  return checked.ok ? undefined : checked.error
}

/** Judges the target of a redirect like a first URL. A redirect never leaves TLS. The reason follows "it". */
export function checkRedirect(from: URL, location: string, policy: OutboundPolicy): Result<URL, string> {
  const target = URL.parse(location, from)
  if (target === null) return err('redirects to no URL')
  if (from.protocol === 'https:' && target.protocol !== 'https:') return err('redirects away from https:')
  const checked = checkUrl(target.href, policy)
  return checked.ok ? checked : err(`redirects to a URL that ${checked.error}`)
}

/**
 * Returns why connections to an address are not allowed, as a phrase ("a loopback address"); undefined if they are.
 * `taken` knows addresses that are not in the configuration.
 */
export function refusedAddress(
  address: string,
  { allowedNetworks, guestRanges }: Pick<OutboundPolicy, 'allowedNetworks' | 'guestRanges'>,
  { isGuest, isHost }: TakenAddresses = FREE,
): string | undefined {
  const canonical = canonicalAddress(address)
  if (canonical === undefined) return 'no address'
  const names = [canonical, ...embeddedIn(canonical)]
  const isIn = (network: string): boolean => names.some((name) => networkContains(network, name))
  if (allowedNetworks.some(isIn)) return undefined
  if (guestRanges.some(isIn) || names.some(isGuest)) return 'the address of a guest'
  const special = REFUSED.find(([network]) => isIn(network))?.[1]
  return special ?? (names.some(isHost) ? 'an address of this host' : undefined)
}

/** Knows who has an address now; asked with its canonical text. */
export type TakenAddresses = {
  /** Whether a VM has the address, even outside of the configured ranges. */
  readonly isGuest: (address: string) => boolean
  /** Whether this host has the address; a connection to it would reach services of this host. */
  readonly isHost: (address: string) => boolean
}

const FREE: TakenAddresses = { isGuest: () => false, isHost: () => false }

/** The reason why {@link checkUrl} refuses a host that no name in DNS can have. */
const LONG_HOST = `names a host of more than ${limits.urlHostCharactersMax} characters`

/** Returns the host without the brackets of an IPv6 address, and without the dot that ends an absolute name. */
const hostOf = (url: URL): string => url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')

const isAllowedHost = (host: string, allowed: readonly string[]): boolean =>
  allowed.length === 0 ||
  allowed.some((pattern) => (pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern))

function embeddedIn(address: string): readonly string[] {
  if (!EMBEDDING.some((network) => networkContains(network, address))) return []
  return [formatAddress(parseAddress(address)?.subarray(-4) ?? new Uint8Array(4))]
}
