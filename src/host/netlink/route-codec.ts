/** Encodes and decodes only what we use of rtnetlink(7): links, addresses, routes, neighbours. */
import { formatAddress } from '../../core/network/address.ts'
import { given } from '../../lib/given.ts'
import { decodeAttributes, decodeString, encodeAttribute, encodeString, encodeUint32 } from './message.ts'
import { NLM_F_CREATE, NLM_F_EXCL } from './message.ts'
import type { Neighbour } from '../../core/world/network-state.ts'
import type { Request } from './netlink-socket.ts'

const RTM_NEWLINK = 16
const RTM_GETLINK = 18
const RTM_SETLINK = 19
const RTM_GETADDR = 22
export const RTM_GETROUTE = 26
const RTM_GETNEIGH = 30

const AF_UNSPEC = 0
export const AF_INET = 2
export const AF_INET6 = 10

const IFF_UP = 1
const IFLA_ADDRESS = 1
const IFLA_IFNAME = 3
const IFLA_QDISC = 6
const IFLA_MASTER = 10
const IFLA_LINKINFO = 18
const IFLA_IFALIAS = 20
const IFLA_STATS64 = 23
const IFLA_AF_SPEC = 26
const IFLA_INET_CONF = 1
const IFLA_INET6_CONF = 2
const IFLA_EXT_MASK = 29
const IFLA_CARRIER = 33
const RTEXT_FILTER_SKIP_STATS = 8
const IFLA_INFO_KIND = 1
const IFLA_INFO_DATA = 2
const IFLA_TUN_OWNER = 1
const IFLA_TUN_GROUP = 2
const IFLA_TUN_TYPE = 3
const IFF_TAP = 2

export const IFA_ADDRESS = 1
export const IFA_LOCAL = 2
const IFA_BROADCAST = 4

export const RTA_DST = 1
export const RTA_OIF = 4
export const RTA_GATEWAY = 5
export const RTA_PRIORITY = 6
const RTA_MULTIPATH = 9
const RTA_VIA = 18
export const RTN_UNICAST = 1
export const RT_TABLE_MAIN = 254

export const NDA_DST = 1
export const NDA_LLADDR = 2
const NDA_IFINDEX = 8
export const NUD_PERMANENT = 0x80

const LINK_HEADER_BYTES = 16
export const ADDRESS_HEADER_BYTES = 8
export const ROUTE_HEADER_BYTES = 12
export const NEIGHBOUR_HEADER_BYTES = 12

export type Link = {
  readonly index: number
  readonly name: string
  readonly up: boolean
  /** Whether the device reports that its other end is there. For a tap: whether a process holds it. */
  readonly carrier: boolean
  /** The kind of its root qdisc, e.g. `tbf`; empty if the kernel does not report it. */
  readonly qdisc: string
  /** The interface alias: free text that administrators and programs attach. */
  readonly alias?: string
  /** The driver, e.g. `tun`, `veth`; absent for hardware. */
  readonly kind?: string
  /** The number of the link that it is a member of, e.g. a bridge, which takes its packets. */
  readonly master?: number
  /** In text; absent for a link without hardware addresses. */
  readonly macAddress?: string
  /** Present only for a `tun` device in tap mode: the user and the group that may attach to it. */
  readonly tap?: { readonly owner?: number; readonly group?: number }
  /** Its settings of `net.ipv4.conf`: 32 bits each, in the order of linux/ip.h. */
  readonly ipv4Settings?: Buffer
  /** Its settings of `net.ipv6.conf`, in the order of linux/ipv6.h; absent for a kernel without IPv6. */
  readonly ipv6Settings?: Buffer
}

const skipStatistics = encodeAttribute(IFLA_EXT_MASK, encodeUint32(RTEXT_FILTER_SKIP_STATS))

export const getLink = (name: string, options: { readonly statistics?: boolean } = {}): Request => ({
  what: `get link ${name}`,
  type: RTM_GETLINK,
  body: Buffer.concat([
    Buffer.alloc(LINK_HEADER_BYTES),
    encodeAttribute(IFLA_IFNAME, encodeString(name)),
    ...(options.statistics === true ? [] : [skipStatistics]),
  ]),
})

/** Requests a link by its number. */
export function getLinkAt(index: number): Request {
  const header = Buffer.alloc(LINK_HEADER_BYTES)
  header.writeInt32LE(index, 4)
  return { what: `get link ${index}`, type: RTM_GETLINK, body: Buffer.concat([header, skipStatistics]) }
}

export const dumpLinks = (kind: string): Request => ({
  what: `list ${kind} links`,
  type: RTM_GETLINK,
  body: Buffer.concat([
    Buffer.alloc(LINK_HEADER_BYTES),
    skipStatistics,
    encodeAttribute(IFLA_LINKINFO, encodeAttribute(IFLA_INFO_KIND, encodeString(kind))),
  ]),
})

/** Makes a link of a driver that needs no settings. The link is down. Fails with EEXIST if the name is taken. */
export const newLink = (name: string, kind: string): Request => ({
  what: `make ${kind} link ${name}`,
  type: RTM_NEWLINK,
  flags: NLM_F_CREATE | NLM_F_EXCL,
  body: Buffer.concat([
    Buffer.alloc(LINK_HEADER_BYTES),
    encodeAttribute(IFLA_IFNAME, encodeString(name)),
    encodeAttribute(IFLA_LINKINFO, encodeAttribute(IFLA_INFO_KIND, encodeString(kind))),
  ]),
})

export function setLinkUp(index: number): Request {
  const header = Buffer.alloc(LINK_HEADER_BYTES)
  header.writeInt32LE(index, 4)
  header.writeUInt32LE(IFF_UP, 8)
  // The mask of the flags that change.
  header.writeUInt32LE(IFF_UP, 12)
  return { what: `raise link ${index}`, type: RTM_SETLINK, body: header }
}

/** Settings that one request gives to a link. */
export type LinkSettings = {
  /** In text: `02:76:ff:ff:ff:ff`. */
  readonly macAddress?: string
  readonly alias?: string
  /** The number of a link, e.g. a bridge, that it becomes a member of; 0 to leave the one that it is in. */
  readonly master?: number
  /** Settings of `net.ipv4.conf`, by their place in {@link Link.ipv4Settings}. */
  readonly ipv4Settings?: readonly (readonly [place: number, value: number])[]
}

export function setLink(index: number, { macAddress, alias, master, ipv4Settings }: LinkSettings): Request {
  const header = Buffer.alloc(LINK_HEADER_BYTES)
  header.writeInt32LE(index, 4)
  const attributes: Buffer[] = []
  if (macAddress !== undefined) attributes.push(encodeAttribute(IFLA_ADDRESS, parseMac(macAddress)))
  if (alias !== undefined) attributes.push(encodeAttribute(IFLA_IFALIAS, Buffer.from(alias)))
  if (master !== undefined) attributes.push(encodeAttribute(IFLA_MASTER, encodeUint32(master)))
  if (ipv4Settings !== undefined) {
    // Numbers of settings begin with 1 (linux/ip.h).
    const each = ipv4Settings.map(([place, value]) => encodeAttribute(place + 1, encodeUint32(value)))
    const ofIpv4 = encodeAttribute(AF_INET, encodeAttribute(IFLA_INET_CONF, Buffer.concat(each)))
    attributes.push(encodeAttribute(IFLA_AF_SPEC, ofIpv4))
  }
  return { what: `set up link ${index}`, type: RTM_SETLINK, body: Buffer.concat([header, ...attributes]) }
}

export function decodeLink(body: Buffer): Link {
  const attributes = decodeAttributes(body.subarray(LINK_HEADER_BYTES))
  const alias = attributes.get(IFLA_IFALIAS)
  const address = attributes.get(IFLA_ADDRESS)
  const info = decodeAttributes(attributes.get(IFLA_LINKINFO) ?? Buffer.alloc(0))
  const kind = info.get(IFLA_INFO_KIND)
  const families = decodeAttributes(attributes.get(IFLA_AF_SPEC) ?? Buffer.alloc(0))
  return {
    index: body.readInt32LE(4),
    name: decodeString(attributes.get(IFLA_IFNAME) ?? Buffer.alloc(0)),
    up: (body.readUInt32LE(8) & IFF_UP) !== 0,
    carrier: attributes.get(IFLA_CARRIER)?.readUInt8(0) === 1,
    qdisc: decodeString(attributes.get(IFLA_QDISC) ?? Buffer.alloc(0)),
    ...(alias === undefined ? {} : { alias: decodeString(alias) }),
    ...(address === undefined ? {} : { macAddress: formatMac(address) }),
    ...(kind === undefined ? {} : { kind: decodeString(kind) }),
    ...(kind !== undefined && decodeString(kind) === 'tun' ? decodeTun(info.get(IFLA_INFO_DATA)) : {}),
    ...given({
      master: attributes.get(IFLA_MASTER)?.readUInt32LE(0),
      ipv4Settings: decodeAttributes(families.get(AF_INET) ?? Buffer.alloc(0)).get(IFLA_INET_CONF),
      ipv6Settings: decodeAttributes(families.get(AF_INET6) ?? Buffer.alloc(0)).get(IFLA_INET6_CONF),
    }),
  }
}

/** The counters from the host's side: received packets came out of the device. */
export type LinkStatistics = {
  readonly receivedPackets: number
  readonly transmittedPackets: number
  readonly receivedBytes: number
  readonly transmittedBytes: number
  readonly transmitDroppedPackets: number
}

/** Decodes the counters in an answer to `getLink` with statistics (struct rtnl_link_stats64 of linux/if_link.h). */
export function decodeStatistics(body: Buffer): LinkStatistics {
  const statistics = decodeAttributes(body.subarray(LINK_HEADER_BYTES)).get(IFLA_STATS64) ?? Buffer.alloc(0)
  const field = (place: number): number => Number(statistics.readBigUInt64LE(place * 8))
  return {
    receivedPackets: field(0),
    transmittedPackets: field(1),
    receivedBytes: field(2),
    transmittedBytes: field(3),
    transmitDroppedPackets: field(7),
  }
}

function decodeTun(info: Buffer | undefined): Pick<Link, 'tap'> {
  const attributes = decodeAttributes(info ?? Buffer.alloc(0))
  if (attributes.get(IFLA_TUN_TYPE)?.readUInt8(0) !== IFF_TAP) return {}
  return {
    tap: given({
      owner: attributes.get(IFLA_TUN_OWNER)?.readUInt32LE(0),
      group: attributes.get(IFLA_TUN_GROUP)?.readUInt32LE(0),
    }),
  }
}

/** Requests the addresses of both families. */
export function dumpAddresses(index: number): Request {
  const header = Buffer.alloc(ADDRESS_HEADER_BYTES)
  header.writeUInt8(AF_UNSPEC, 0)
  header.writeUInt32LE(index, 4)
  return { what: `list addresses of link ${index}`, type: RTM_GETADDR, body: header }
}

/** Decodes an address with its prefix length: `169.254.0.1/32`. */
export function decodeAddress(body: Buffer): string {
  const attributes = decodeAttributes(body.subarray(ADDRESS_HEADER_BYTES))
  return `${formatAddress(localOf(attributes))}/${body.readUInt8(1)}`
}

/** Decodes an address without its prefix length, and the broadcast address of its network if that has one. */
export function decodeWithBroadcast(body: Buffer): readonly string[] {
  const attributes = decodeAttributes(body.subarray(ADDRESS_HEADER_BYTES))
  const broadcast = attributes.get(IFA_BROADCAST)
  const local = formatAddress(localOf(attributes))
  return broadcast === undefined ? [local] : [local, formatAddress(broadcast)]
}

/** If there is a peer, IFA_ADDRESS is the peer's. IPv6 has IFA_LOCAL only then. */
const localOf = (attributes: ReadonlyMap<number, Buffer>): Buffer =>
  attributes.get(IFA_LOCAL) ?? attributes.get(IFA_ADDRESS) ?? Buffer.alloc(0)

/** Requests the routes of the main table; with the number of a link, only those that leave by it. */
export function dumpRoutes(family: number, index?: number): Request {
  const header = Buffer.alloc(ROUTE_HEADER_BYTES)
  header.writeUInt8(family, 0)
  header.writeUInt8(RT_TABLE_MAIN, 4)
  const filter = index === undefined ? [] : [encodeAttribute(RTA_OIF, encodeUint32(index))]
  return {
    what: `list routes${index === undefined ? '' : ` of link ${index}`}`,
    type: RTM_GETROUTE,
    body: Buffer.concat([header, ...filter]),
  }
}

/** Requests the routes to other hosts in all tables. */
export function dumpUnicastRoutes(family: typeof AF_INET | typeof AF_INET6): Request {
  const header = Buffer.alloc(ROUTE_HEADER_BYTES)
  header.writeUInt8(family, 0)
  header.writeUInt8(RTN_UNICAST, 7)
  return { what: 'list routes', type: RTM_GETROUTE, body: header }
}

/**
 * Decodes the routers of a route: several for a multipath route (struct rtnexthop of linux/rtnetlink.h), none for a
 * route on the link itself.
 */
export function decodeNextHops(body: Buffer): readonly string[] {
  const attributes = decodeAttributes(body.subarray(ROUTE_HEADER_BYTES))
  const hops = splitNextHops(attributes.get(RTA_MULTIPATH))
  return [...nextHopOf(attributes), ...hops.flatMap((hop) => nextHopOf(hop.attributes))]
}

const NEXT_HOP_HEADER_BYTES = 8
const VIA_FAMILY_BYTES = 2

function nextHopOf(attributes: ReadonlyMap<number, Buffer>): readonly string[] {
  // A router of the other family has its family before the address (struct rtvia).
  const router = attributes.get(RTA_GATEWAY) ?? attributes.get(RTA_VIA)?.subarray(VIA_FAMILY_BYTES)
  return router === undefined ? [] : [formatAddress(router)]
}

type NextHop = { readonly link: number; readonly attributes: ReadonlyMap<number, Buffer> }

/** Returns the next hops (struct rtnexthop). Throws RangeError on a length that does not fit. */
function splitNextHops(ways: Buffer = Buffer.alloc(0)): readonly NextHop[] {
  const found: NextHop[] = []
  for (let at = 0; at < ways.length;) {
    const length = at + NEXT_HOP_HEADER_BYTES <= ways.length ? ways.readUInt16LE(at) : 0
    if (length < NEXT_HOP_HEADER_BYTES || at + length > ways.length) {
      throw new RangeError(`next hop of ${length} bytes at ${at} of ${ways.length}`)
    }
    const attributes = decodeAttributes(ways.subarray(at + NEXT_HOP_HEADER_BYTES, at + length))
    found.push({ link: ways.readUInt32LE(at + 4), attributes })
    at += (length + 3) & ~3
  }
  return found
}

/** Decodes the destination with its prefix length, and the router if there is one: `192.0.2.10/32`. */
export function decodeRoute(body: Buffer): string {
  const unspecified = Buffer.alloc(body.readUInt8(0) === AF_INET ? 4 : 16)
  const attributes = decodeAttributes(body.subarray(ROUTE_HEADER_BYTES))
  const destination = attributes.get(RTA_DST) ?? unspecified
  const vias = nextHopOf(attributes).map((router) => ` via ${router}`)
  return `${formatAddress(destination)}/${body.readUInt8(1)}${vias.join('')}`
}

/** Returns the number of the link that a route leaves by; undefined if it has several. */
export const linkOfRoute = (body: Buffer): number | undefined =>
  decodeAttributes(body.subarray(ROUTE_HEADER_BYTES)).get(RTA_OIF)?.readUInt32LE(0)

/** Returns the numbers of all links that a route leaves by; none if it refuses packets. */
export function linksOfRoute(body: Buffer): ReadonlySet<number> {
  const attributes = decodeAttributes(body.subarray(ROUTE_HEADER_BYTES))
  const link = attributes.get(RTA_OIF)?.readUInt32LE(0)
  return new Set(
    link === undefined ? splitNextHops(attributes.get(RTA_MULTIPATH)).map((hop) => hop.link) : [link],
  )
}

/** Requests the neighbours of both families. */
export const dumpNeighbours = (index?: number): Request => ({
  what: `list neighbours${index === undefined ? '' : ` of link ${index}`}`,
  type: RTM_GETNEIGH,
  body: Buffer.concat([
    Buffer.alloc(NEIGHBOUR_HEADER_BYTES),
    ...(index === undefined ? [] : [encodeAttribute(NDA_IFINDEX, encodeUint32(index))]),
  ]),
})

/** Decodes a neighbour; undefined for an entry that the kernel learned or is about to forget. */
export function decodePermanentNeighbour(body: Buffer): Neighbour | undefined {
  if ((body.readUInt16LE(8) & NUD_PERMANENT) === 0) return undefined
  const attributes = decodeAttributes(body.subarray(NEIGHBOUR_HEADER_BYTES))
  const address = attributes.get(NDA_DST)
  const macAddress = attributes.get(NDA_LLADDR)
  if (address === undefined || macAddress === undefined) return undefined
  return { address: formatAddress(address), macAddress: formatMac(macAddress) }
}

/** Returns the number of a neighbour's link. */
export const linkOfNeighbour = (body: Buffer): number => body.readInt32LE(4)

export const parseMac = (text: string): Buffer => Buffer.from(text.replaceAll(':', ''), 'hex')

const formatMac = (bytes: Buffer): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(':')
