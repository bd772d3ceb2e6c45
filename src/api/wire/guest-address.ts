/**
 * The text that everything on the host uses for an address (inet_ntop(3)), or undefined where no guest may have it.
 * `text` is of valid form already.
 */
export function guestIpv4(text: string): string | undefined {
  const [first = 0, second = 0] = text.split('.').map(Number)
  const linkLocal = first === 169 && second === 254
  return first === 0 || first === 127 || first >= 224 || linkLocal ? undefined : text
}

/** As {@link guestIpv4}; upper case, leading zeros and long zero runs go. Global and unique local unicast only. */
export function guestIpv6(text: string): string | undefined {
  // The host of a URL is serialised as RFC 5952 wants it (url.spec.whatwg.org, "IPv6 serializer").
  const canonical = new URL(`http://[${text}]/`).hostname.slice(1, -1)
  const first = Number.parseInt(canonical.split(':', 1)[0] || '0', 16)
  const globalUnicast = first >= 0x2000 && first <= 0x3fff
  const uniqueLocal = first >= 0xfc00 && first <= 0xfdff
  return globalUnicast || uniqueLocal ? canonical : undefined
}
