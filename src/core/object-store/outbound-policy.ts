import { limits } from '../../config/limits.ts'
import { err, ok } from '../../lib/result.ts'
import { canonicalAddress, formatAddress, parseAddress } from '../network/address.ts'
import { networkContains } from '../network/cidr.ts'
import { LINK_LOCAL_NETWORKS, METADATA_NETWORKS } from '../network/closed-networks.ts'
import type { Result } from '../../lib/result.ts'
import type { SignedUrl } from '../storage/signed-url.ts'

/** Where this host may fetch images from and send snapshots to, at the word of a controller. */
export type OutboundPolicy = {
  readonly allowHttp: boolean
  /** Lower case; `*.` before a name means all below it. Any host where empty. */
  readonly allowedHosts: readonly string[]
  /** Networks in canonical CIDR form that may be spoken to although they are refused else. */
  readonly allowedNetworks: readonly string[]
  /** Networks of guests, refused. */
  readonly guestRanges: readonly string[]
}

/** What no URL leads to, with the word for it (IANA's registries of special-purpose addresses, RFC 6890). */
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
  // Other ways to an IPv4 address, whose form a network chooses for itself (RFC 8215) or nobody uses (RFC 4291, 2.5.5.1; RFC 7526).
  ['64:ff9b:1::/48', 'a NAT64 address of a local network'],
  ['::/96', 'an IPv4-compatible address'],
  ['2002::/16', 'a 6to4 address'],
]

/** IPv6 forms of IPv4 addresses, by which a refused one could be named: mapped (RFC 4291, 2.5.5.2) and NAT64 (RFC 6052). */
const EMBEDDING = ['::ffff:0.0.0.0/96', '64:ff9b::/96'] as const

/**
 * The URL, if its scheme and host are allowed. What its name resolves to is judged when it is connected to. The reason of a
 * refusal follows "its URL", and never repeats it: it may be signed.
 */
export function checkUrl(text: string, policy: OutboundPolicy): Result<URL, string> {
  const url = URL.parse(text)
  if (url === null) return err('is no absolute URL')
  if (url.protocol === 'http:' && !policy.allowHttp)
    return err('has http:, which is not allowed on this host')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return err('has a scheme other than https:')
  const host = hostOf(url)
  if (host.length > limits.urlHostCharactersMax) return err(LONG_HOST)
  if (!isAllowedHost(host, policy.allowedHosts)) {
    return err(`names ${host}, which is not among the allowed hosts of this host`)
  }
  const refused = canonicalAddress(host) === undefined ? undefined : refusedAddress(host, policy)
  return refused === undefined ? ok(url) : err(`names ${refused}, where this host may not speak to`)
}

/** Why a signed URL is not allowed, as {@link checkUrl} says it; undefined where it is. */
export function refusedUrl(url: SignedUrl, policy: OutboundPolicy): string | undefined {
  const checked = checkUrl(url.reveal(), policy)
  return checked.ok ? undefined : checked.error
}

/** The target of a redirect, judged like a first URL. It never leaves TLS. The reason follows "it". */
export function checkRedirect(from: URL, location: string, policy: OutboundPolicy): Result<URL, string> {
  const target = URL.parse(location, from)
  if (target === null) return err('redirects to no URL')
  if (from.protocol === 'https:' && target.protocol !== 'https:') return err('redirects away from https:')
  const checked = checkUrl(target.href, policy)
  return checked.ok ? checked : err(`redirects to a URL that ${checked.error}`)
}

/**
 * Why an address may not be spoken to, as a phrase ("a loopback address"); undefined where it may. `taken` tells of
 * addresses that the configuration does not have.
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

/** Who has an address now; asked with its canonical text. */
export type TakenAddresses = {
  /** A VM, also outside of the configured ranges. */
  readonly isGuest: (address: string) => boolean
  /** This host itself: whoever connects to it speaks to services of this host. */
  readonly isHost: (address: string) => boolean
}

const FREE: TakenAddresses = { isGuest: () => false, isHost: () => false }

/** Why {@link checkUrl} refuses a host that no name in DNS can have. */
const LONG_HOST = `names a host of more than ${limits.urlHostCharactersMax} characters`

/** Without the brackets of an IPv6 address, and without the dot that ends an absolute name. */
const hostOf = (url: URL): string => url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')

const isAllowedHost = (host: string, allowed: readonly string[]): boolean =>
  allowed.length === 0 ||
  allowed.some((pattern) => (pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern))

function embeddedIn(address: string): readonly string[] {
  if (!EMBEDDING.some((network) => networkContains(network, address))) return []
  return [formatAddress(parseAddress(address)?.subarray(-4) ?? new Uint8Array(4))]
}
