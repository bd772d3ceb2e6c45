/** Sizes and numbers of the headers of a frame (IEEE 802.3, RFC 791, RFC 8200). Sizes are bytes. */

export const ETHERNET_BYTES = 14
export const TYPE_IPV4 = 0x0800
export const TYPE_IPV6 = 0x86dd
export const IPV4_HEADER_BYTES = 20
export const IPV6_HEADER_BYTES = 40
export const TCP = 6
export const UDP = 17

/** Hop-by-hop options, routing, destination options (RFC 8200, 4.1). One header of a kind is usual. */
export const EXTENSIONS: readonly number[] = [0, 43, 60]
/** Bounds the walk over the extension headers of a packet. */
export const EXTENSIONS_MAX = 6
