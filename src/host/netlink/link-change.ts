/** Encodes changes of what is on a link, with the bytes that ip(8) sends for them. */
import { unreachable } from '../../lib/assert.ts'
import { parseAddress } from '../../core/network/address.ts'
import { encodeAttribute, encodeUint32, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE } from './message.ts'
import {
  ADDRESS_HEADER_BYTES,
  AF_INET,
  AF_INET6,
  IFA_ADDRESS,
  IFA_LOCAL,
  NDA_DST,
  NDA_LLADDR,
  NEIGHBOUR_HEADER_BYTES,
  NUD_PERMANENT,
  ROUTE_HEADER_BYTES,
  RTA_DST,
  RTA_GATEWAY,
  RTA_OIF,
  RTA_PRIORITY,
  RTN_UNICAST,
  RT_TABLE_MAIN,
  parseMac,
  setLinkUp,
} from './route-codec.ts'
import {
  RTM_DELADDR,
  RTM_DELNEIGH,
  RTM_DELROUTE,
  RTM_NEWADDR,
  RTM_NEWNEIGH,
  RTM_NEWROUTE,
} from './route-events.ts'
import type { Request } from './netlink-socket.ts'

/** Addresses and routes are in the form that `decodeAddress` and `decodeRoute` write. Routes are of the main table. */
export type LinkChange = { readonly kind: 'raise' } | AddressChange | RouteChange | NeighbourChange

/** The scope of an address that is added is the link. */
type AddressChange = { readonly kind: 'add-address' | 'remove-address'; readonly address: string }
/** Without a metric, the kernel gives an added route its default, and removes one with any. */
type RouteChange = {
  readonly kind: 'add-route' | 'remove-route'
  readonly route: string
  readonly metric?: number
}
/** `set-neighbour` makes a permanent entry, in place of one that exists. */
type NeighbourChange =
  | { readonly kind: 'set-neighbour'; readonly address: string; readonly macAddress: string }
  | { readonly kind: 'remove-neighbour'; readonly address: string }

const IFA_F_NODAD = 0x02
const RTPROT_BOOT = 3
const RT_SCOPE_UNIVERSE = 0
const RT_SCOPE_LINK = 253
/** Matches any scope in a request to remove an IPv4 route. */
const RT_SCOPE_NOWHERE = 255

/** Returns the request for a change of one link. Throws RangeError on text that is not an address or route. */
export function encodeChange(index: number, change: LinkChange): Request {
  switch (change.kind) {
    case 'raise':
      return setLinkUp(index)
    case 'add-address':
      return {
        what: `add address ${change.address} to link ${index}`,
        type: RTM_NEWADDR,
        flags: NLM_F_CREATE | NLM_F_EXCL,
        body: addressBody(index, change),
      }
    case 'remove-address':
      return {
        what: `remove address ${change.address} from link ${index}`,
        type: RTM_DELADDR,
        body: addressBody(index, change),
      }
    case 'add-route':
      return {
        what: `add route ${change.route} to link ${index}`,
        type: RTM_NEWROUTE,
        flags: NLM_F_CREATE | NLM_F_EXCL,
        body: routeBody(index, change),
      }
    case 'remove-route':
      return {
        what: `remove route ${change.route} from link ${index}`,
        type: RTM_DELROUTE,
        body: routeBody(index, change),
      }
    case 'set-neighbour':
      return {
        what: `set neighbour ${change.address} of link ${index}`,
        type: RTM_NEWNEIGH,
        flags: NLM_F_CREATE | NLM_F_REPLACE,
        body: neighbourBody(index, change),
      }
    case 'remove-neighbour':
      return {
        what: `remove neighbour ${change.address} from link ${index}`,
        type: RTM_DELNEIGH,
        body: neighbourBody(index, change),
      }
    default:
      return unreachable(change)
  }
}

function addressBody(index: number, { kind, address }: AddressChange): Buffer {
  const { family, bytes, prefixLength } = networkFields(address)
  const header = Buffer.alloc(ADDRESS_HEADER_BYTES)
  header.writeUInt8(family, 0)
  header.writeUInt8(prefixLength, 1)
  if (kind === 'add-address') {
    // Otherwise IPv6 would delay the address until another host is there to object to it (RFC 4862, 5.4).
    header.writeUInt8(family === AF_INET6 ? IFA_F_NODAD : 0, 2)
    header.writeUInt8(RT_SCOPE_LINK, 3)
  }
  header.writeUInt32LE(index, 4)
  return Buffer.concat([header, encodeAttribute(IFA_LOCAL, bytes), encodeAttribute(IFA_ADDRESS, bytes)])
}

function routeBody(index: number, { kind, route, metric }: RouteChange): Buffer {
  const [destination = '', router] = route.split(' via ')
  const { family, bytes, prefixLength } = networkFields(destination)
  const isAdded = kind === 'add-route'
  const header = Buffer.alloc(ROUTE_HEADER_BYTES)
  header.writeUInt8(family, 0)
  header.writeUInt8(prefixLength, 1)
  header.writeUInt8(RT_TABLE_MAIN, 4)
  header.writeUInt8(isAdded ? RTPROT_BOOT : 0, 5)
  header.writeUInt8(scopeOf(family, isAdded, router), 6)
  header.writeUInt8(isAdded ? RTN_UNICAST : 0, 7)
  return Buffer.concat([
    header,
    encodeAttribute(RTA_DST, bytes),
    ...(router === undefined ? [] : [encodeAttribute(RTA_GATEWAY, parse(router))]),
    ...(metric === undefined ? [] : [encodeAttribute(RTA_PRIORITY, encodeUint32(metric))]),
    encodeAttribute(RTA_OIF, encodeUint32(index)),
  ])
}

/** Returns the scope of a route. IPv6 routes have none. */
function scopeOf(family: number, isAdded: boolean, router: string | undefined): number {
  if (family === AF_INET6) return RT_SCOPE_UNIVERSE
  if (!isAdded) return RT_SCOPE_NOWHERE
  return router === undefined ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE
}

function neighbourBody(index: number, change: NeighbourChange): Buffer {
  const bytes = parse(change.address)
  const header = Buffer.alloc(NEIGHBOUR_HEADER_BYTES)
  header.writeUInt8(familyOf(bytes), 0)
  header.writeInt32LE(index, 4)
  header.writeUInt16LE(NUD_PERMANENT, 8)
  const macAddress =
    change.kind === 'set-neighbour' ? [encodeAttribute(NDA_LLADDR, parseMac(change.macAddress))] : []
  return Buffer.concat([header, encodeAttribute(NDA_DST, bytes), ...macAddress])
}

/** An address or a destination, with its prefix length. */
type Network = { readonly family: number; readonly bytes: Uint8Array; readonly prefixLength: number }

/** Parses an address or destination with its prefix length. Throws RangeError on other text. */
export function networkFields(text: string): Network {
  const [address = '', prefixLength] = text.split('/')
  if (prefixLength === undefined) throw new RangeError(`${JSON.stringify(text)} has no prefix length`)
  const bytes = parse(address)
  return { family: familyOf(bytes), bytes, prefixLength: Number(prefixLength) }
}

function parse(text: string): Uint8Array {
  const bytes = parseAddress(text)
  if (bytes === undefined) throw new RangeError(`${JSON.stringify(text)} is not an address`)
  return bytes
}

const familyOf = (bytes: Uint8Array): number => (bytes.length === 4 ? AF_INET : AF_INET6)
