/**
 * Decodes the reports of rtnetlink(7) about changes to links, and to the addresses, routes, neighbours and qdiscs on
 * them.
 */
import { decodeAttributes, decodeString } from './message.ts'
import { linkOfNeighbour, linkOfRoute, NUD_PERMANENT } from './route-codec.ts'
import type { Message } from './message.ts'

/** RTNLGRP_LINK, _NEIGH, _TC, _IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE of linux/rtnetlink.h. */
export const LINK_GROUPS: readonly number[] = [1, 3, 4, 5, 7, 9, 11]

/** RTNLGRP_LINK, _IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE, _NEXTHOP of linux/rtnetlink.h. */
export const ADDRESS_GROUPS: readonly number[] = [1, 5, 7, 9, 11, 32]

const RTM_NEWLINK = 16
const RTM_DELLINK = 17
export const RTM_NEWADDR = 20
export const RTM_DELADDR = 21
export const RTM_NEWROUTE = 24
export const RTM_DELROUTE = 25
export const RTM_NEWNEIGH = 28
export const RTM_DELNEIGH = 29
const RTM_NEWQDISC = 36
const RTM_DELQDISC = 37
const RTM_NEWTFILTER = 44
const RTM_DELTFILTER = 45

const AF_UNSPEC = 0
const IFLA_IFNAME = 3
const LINK_HEADER_BYTES = 16
const NUD_FAILED = 0x20

/** The subject of a message: a link itself, with its current name, or something on a link. */
export type LinkEvent =
  | { readonly kind: 'link' | 'link-gone'; readonly index: number; readonly name: string }
  | { readonly kind: 'addresses' | 'routes' | 'neighbours' | 'traffic-control'; readonly index: number }

export const isRouteMessage = ({ type }: Message): boolean => type === RTM_NEWROUTE || type === RTM_DELROUTE

/** Decodes a message; undefined if it is not relevant. */
export function decodeLinkEvent({ type, body }: Message): LinkEvent | undefined {
  switch (type) {
    case RTM_NEWLINK:
    case RTM_DELLINK: {
      // Bridges and IPv6 report their ports and settings under their own families.
      if (body.readUInt8(0) !== AF_UNSPEC) return undefined
      const name = decodeAttributes(body.subarray(LINK_HEADER_BYTES)).get(IFLA_IFNAME) ?? Buffer.alloc(0)
      const kind = type === RTM_NEWLINK ? 'link' : 'link-gone'
      return { kind, index: body.readInt32LE(4), name: decodeString(name) }
    }
    case RTM_NEWADDR:
    case RTM_DELADDR:
      return { kind: 'addresses', index: body.readInt32LE(4) }
    case RTM_NEWROUTE:
    case RTM_DELROUTE: {
      const index = linkOfRoute(body)
      return index === undefined ? undefined : { kind: 'routes', index }
    }
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
      // A permanent entry that is removed is reported as failed. Entries that the kernel learns and forgets by itself
      // are not relevant.
      return (body.readUInt16LE(8) & (NUD_PERMANENT | NUD_FAILED)) === 0
        ? undefined
        : { kind: 'neighbours', index: linkOfNeighbour(body) }
    case RTM_NEWQDISC:
    case RTM_DELQDISC:
    case RTM_NEWTFILTER:
    case RTM_DELTFILTER:
      return { kind: 'traffic-control', index: body.readInt32LE(4) }
    default:
      return undefined
  }
}
