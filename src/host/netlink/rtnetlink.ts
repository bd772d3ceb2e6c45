import { NETLINK_ROUTE, NetlinkSocket } from './netlink-socket.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import {
  AF_INET,
  AF_INET6,
  decodeAddress,
  decodeBroadcast,
  decodeLink,
  decodeNextHops,
  decodePermanentNeighbour,
  decodeRoute,
  decodeStatistics,
  dumpAddresses,
  dumpLinks,
  dumpNeighbours,
  dumpRoutes,
  dumpUnicastRoutes,
  getLink,
  newLink,
  setLinkAddress,
  setLinkAlias,
  setLinkUp,
} from './route-codec.ts'
import { decodeFilter, decodeQdisc, getIngressFilter, getRootQdisc } from './traffic-control-codec.ts'
import type { Link, LinkStatistics } from './route-codec.ts'
import type { Filter, FilterPlace, Qdisc } from './traffic-control-codec.ts'

/** The kernel's links and what is on them, read without a program. Every method throws ErrnoError. */
export class Rtnetlink {
  readonly #socket = new NetlinkSocket(NETLINK_ROUTE)

  /** What the kernel tells others with this port on it was caused by this socket. */
  get port(): number {
    return this.#socket.port
  }

  /** The link of that name, or undefined where there is none. */
  link(name: string): Link | undefined {
    try {
      return decodeLink(this.#socket.get(getLink(name)).body)
    } catch (error) {
      if (hasErrno(error, 'ENODEV')) return undefined
      throw error
    }
  }

  /** All links of one driver, e.g. `tun`. */
  links(kind: string): readonly Link[] {
    return this.#socket.dump(dumpLinks(kind)).map(({ body }) => decodeLink(body))
  }

  /** Addresses of a link with prefix length. Fails with ENODEV where the link is gone. */
  addresses(index: number): readonly string[] {
    return this.#socket.dump(dumpAddresses(index)).map(({ body }) => decodeAddress(body))
  }

  /** Broadcast addresses of the networks that the addresses of a link are in. Fails with ENODEV likewise. */
  broadcasts(index: number): readonly string[] {
    return this.#socket.dump(dumpAddresses(index)).flatMap(({ body }) => decodeBroadcast(body) ?? [])
  }

  /** The routers that routes of any table lead to. */
  nextHops(): readonly string[] {
    return ([AF_INET, AF_INET6] as const).flatMap((family) =>
      this.#socket.dump(dumpUnicastRoutes(family)).flatMap(({ body }) => decodeNextHops(body)),
    )
  }

  /** Destinations in the main table that are routed to a link, with prefix length. Fails with ENODEV likewise. */
  routes(index: number): readonly string[] {
    return ([AF_INET, AF_INET6] as const).flatMap((family) => {
      try {
        return this.#socket.dump(dumpRoutes(family, index)).map(({ body }) => decodeRoute(body))
      } catch (error) {
        // A family's main table is made with its first route.
        if (hasErrno(error, 'ENOENT')) return []
        throw error
      }
    })
  }

  permanentNeighbours(index: number): readonly { readonly address: string; readonly macAddress: string }[] {
    return this.#socket
      .dump(dumpNeighbours(index))
      .flatMap(({ body }) => decodePermanentNeighbour(body) ?? [])
  }

  /** Fails with ENODEV where the link is gone. */
  statistics(name: string): LinkStatistics {
    return decodeStatistics(this.#socket.get(getLink(name, { statistics: true })).body)
  }

  /** What sends out by a link; undefined where nothing stands before the device. Fails with ENODEV likewise. */
  rootQdisc(index: number): Qdisc | undefined {
    const answer = this.#socket.find(getRootQdisc(index))
    return answer === undefined ? undefined : decodeQdisc(answer.body)
  }

  /** A filter on what comes in by a link; undefined where there is none. Fails with ENODEV likewise. */
  ingressFilter(index: number, place: FilterPlace): Filter | undefined {
    try {
      return decodeFilter(this.#socket.get(getIngressFilter(index, place)).body)
    } catch (error) {
      // EINVAL: there is no clsact qdisc to hold any.
      if (hasErrno(error, 'ENOENT', 'EINVAL')) return undefined
      throw error
    }
  }

  /** Fails with EEXIST where the name is taken. */
  add(name: string, kind: string): void {
    this.#socket.change(newLink(name, kind))
  }

  raise(index: number): void {
    this.#socket.change(setLinkUp(index))
  }

  setAddress(index: number, macAddress: string): void {
    this.#socket.change(setLinkAddress(index, macAddress))
  }

  setAlias(index: number, alias: string): void {
    this.#socket.change(setLinkAlias(index, alias))
  }

  close(): void {
    this.#socket.close()
  }
}
