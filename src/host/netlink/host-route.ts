/** Encodes and decodes what decides between several routes of the host to one network (rtnetlink(7)). */
import { formatAddress } from '../../core/network/address.ts'
import { given } from '../../lib/given.ts'
import { decodeAttributes, encodeAttribute } from './message.ts'
import {
  linkOfRoute,
  ROUTE_HEADER_BYTES,
  RTA_DST,
  RTA_PRIORITY,
  RTM_GETROUTE,
  RTN_UNICAST,
} from './route-codec.ts'
import type { Request } from './netlink-socket.ts'

const RTN_BLACKHOLE = 6
const RTN_PROHIBIT = 8
/** RTPROT_* of linux/rtnetlink.h: zebra, bird, babel, openr, bgp, isis, ospf, rip, eigrp. */
const ROUTING_PROTOCOLS: ReadonlySet<number> = new Set([11, 12, 42, 99, 186, 187, 188, 189, 192])
const RTM_F_FIB_MATCH = 0x2000

/** Requests the route that the kernel takes to an address. */
export function getRoute(family: number, address: Uint8Array): Request {
  const header = Buffer.alloc(ROUTE_HEADER_BYTES)
  header.writeUInt8(family, 0)
  header.writeUInt8(address.length * 8, 1)
  header.writeUInt32LE(RTM_F_FIB_MATCH, 8)
  return {
    what: `get the route to ${formatAddress(address)}`,
    type: RTM_GETROUTE,
    body: Buffer.concat([header, encodeAttribute(RTA_DST, address)]),
  }
}

/** A route of the host, as far as it decides between several to one network. */
export type HostRoute = {
  /** Its link; absent if it has several. */
  readonly link?: number
  /** Whether it leads to other hosts, to nowhere (it refuses packets), or is the kernel's own for an address. */
  readonly leads: 'out' | 'nowhere' | 'here'
  /** The kernel takes the route with the lowest metric. */
  readonly metric: number
  /** Whether a routing daemon made it, which learns routes from other hosts. */
  readonly isLearned: boolean
}

export function decodeHostRoute(body: Buffer): HostRoute {
  const type = body.readUInt8(7)
  const refuses = type >= RTN_BLACKHOLE && type <= RTN_PROHIBIT
  return {
    ...given({ link: linkOfRoute(body) }),
    leads: refuses ? 'nowhere' : type === RTN_UNICAST ? 'out' : 'here',
    metric: decodeAttributes(body.subarray(ROUTE_HEADER_BYTES)).get(RTA_PRIORITY)?.readUInt32LE(0) ?? 0,
    isLearned: ROUTING_PROTOCOLS.has(body.readUInt8(5)),
  }
}

/**
 * Whether a route leads to exactly this network. It costs less than to decode all of it, for a search in a long list.
 */
export function isRouteTo(
  body: Buffer,
  { bytes, prefixLength }: { readonly bytes: Uint8Array; readonly prefixLength: number },
): boolean {
  if (body.readUInt8(1) !== prefixLength) return false
  const destination = decodeAttributes(body.subarray(ROUTE_HEADER_BYTES)).get(RTA_DST)
  return destination?.equals(bytes) ?? prefixLength === 0
}
