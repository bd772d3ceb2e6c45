import { constants } from 'node:os'
import { NETLINK_ROUTE, NetlinkSocket } from './netlink-socket.ts'
import {
  AF_INET,
  AF_INET6,
  decodeAddress,
  decodeWithBroadcast,
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
  getLinkAt,
  linkOfNeighbour,
  linkOfRoute,
  linksOfRoute,
  newLink,
  setLink,
} from './route-codec.ts'
import { decodeHostRoute, getRoute, isRouteTo } from './host-route.ts'
import { encodeChange, networkFields } from './link-change.ts'
import { decodeFilter, decodeQdisc, getIngressFilter, getRootQdisc } from './traffic-control-codec.ts'
import type { Neighbour } from '../../core/world/network-state.ts'
import type { LinkChange } from './link-change.ts'
import type { HostRoute } from './host-route.ts'
import type { Link, LinkSettings, LinkStatistics } from './route-codec.ts'
import type { Filter, FilterPlace, Qdisc } from './traffic-control-codec.ts'

const { EACCES, EHOSTUNREACH, EINVAL, ENETUNREACH, ENODEV, ENOENT } = constants.errno

/**
 * Without a route, and for routes of IPv4 that are unreachable, prohibit or blackhole (fib_props of fib_semantics.c).
 */
const UNROUTED = [ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL]

/** A route to several links at once has no `link`. */
export type RouteByRouters = { readonly link: number | undefined; readonly addresses: readonly string[] }

/** A dump of addresses for link 0 covers all links (rtnetlink(7)). */
const EVERY_LINK = 0

/**
 * Reads and changes the kernel's links and what is on them, without running a program. Every method throws ErrnoError.
 */
export class Rtnetlink {
  readonly #socket = new NetlinkSocket(NETLINK_ROUTE)

  /** The port that is on every kernel report of a change caused by this socket. */
  get port(): number {
    return this.#socket.port
  }

  /** Returns the link of that name; undefined if there is none. */
  link(name: string): Link | undefined {
    const answer = this.#socket.getIfThere(getLink(name), [ENODEV])
    return answer === undefined ? undefined : decodeLink(answer.body)
  }

  /** Returns the link with this number; undefined if it is gone. */
  linkAt(index: number): Link | undefined {
    const answer = this.#socket.getIfThere(getLinkAt(index), [ENODEV])
    return answer === undefined ? undefined : decodeLink(answer.body)
  }

  /** Returns all links of one driver, e.g. `tun`. */
  links(kind: string): readonly Link[] {
    return this.#socket.dump(dumpLinks(kind)).map(({ body }) => decodeLink(body))
  }

  /** Returns the addresses of a link with their prefix length. Fails with ENODEV if the link is gone. */
  addresses(index: number): readonly string[] {
    return this.#socket.dump(dumpAddresses(index)).map(({ body }) => decodeAddress(body))
  }

  /** Returns the addresses of all links, and the broadcast addresses of their networks. */
  allAddresses(): readonly string[] {
    return this.#socket.dump(dumpAddresses(EVERY_LINK)).flatMap(({ body }) => decodeWithBroadcast(body))
  }

  /** Returns the routers of the routes in all tables that have any, with the link by which the route leaves. */
  nextHops(): readonly RouteByRouters[] {
    return ([AF_INET, AF_INET6] as const).flatMap((family) =>
      this.#socket.dump(dumpUnicastRoutes(family)).flatMap(({ body }) => {
        const addresses = decodeNextHops(body)
        return addresses.length === 0 ? [] : [{ link: linkOfRoute(body), addresses }]
      }),
    )
  }

  /**
   * Returns the routes of the main table to exactly this network, with any metric. The kernel goes through all routes
   * of the host for it.
   */
  routesTo(network: string): readonly HostRoute[] {
    const wanted = networkFields(network)
    return this.#socket
      .dump(dumpRoutes(wanted.family), [ENOENT])
      .filter(({ body }) => isRouteTo(body, wanted))
      .map(({ body }) => decodeHostRoute(body))
  }

  /**
   * Returns the route that the kernel takes to the only address of this network; undefined if that is a route to a
   * larger one, or there is none.
   */
  routeToHost(network: string): HostRoute | undefined {
    const wanted = networkFields(network)
    const answer = this.#socket.getIfThere(getRoute(wanted.family, wanted.bytes), UNROUTED)
    return answer === undefined || !isRouteTo(answer.body, wanted) ? undefined : decodeHostRoute(answer.body)
  }

  /**
   * Returns the routes in the main table that leave by a link, as {@link decodeRoute} writes them. Fails with ENODEV
   * if the link is gone.
   */
  routes(index: number): readonly string[] {
    return this.#routes(index).map(decodeRoute)
  }

  /** Returns the same of all links, by their numbers. */
  routesByLink(): ReadonlyMap<number, readonly string[]> {
    const found = new Map<number, string[]>()
    for (const body of this.#routes()) {
      for (const link of linksOfRoute(body)) addTo(found, link, decodeRoute(body))
    }
    return found
  }

  #routes(index?: number): readonly Buffer[] {
    return ([AF_INET, AF_INET6] as const).flatMap((family) =>
      // The main table of a family is made with its first route.
      this.#socket.dump(dumpRoutes(family, index), [ENOENT]).map(({ body }) => body),
    )
  }

  permanentNeighbours(index: number): readonly Neighbour[] {
    return this.#socket
      .dump(dumpNeighbours(index))
      .flatMap(({ body }) => decodePermanentNeighbour(body) ?? [])
  }

  /** Returns the same of all links, by their numbers. */
  permanentNeighboursByLink(): ReadonlyMap<number, readonly Neighbour[]> {
    const found = new Map<number, Neighbour[]>()
    for (const { body } of this.#socket.dump(dumpNeighbours())) {
      const neighbour = decodePermanentNeighbour(body)
      if (neighbour !== undefined) addTo(found, linkOfNeighbour(body), neighbour)
    }
    return found
  }

  /** Returns a link's counters. Fails with ENODEV if the link is gone. */
  statistics(name: string): LinkStatistics {
    return decodeStatistics(this.#socket.get(getLink(name, { statistics: true })).body)
  }

  /**
   * Returns the root qdisc of a link; undefined if packets go straight to the device. Fails with ENODEV if the link is
   * gone.
   */
  rootQdisc(index: number): Qdisc | undefined {
    const answer = this.#socket.find(getRootQdisc(index))
    return answer === undefined ? undefined : decodeQdisc(answer.body)
  }

  /** Returns a filter on a link's ingress; undefined if there is none. Fails with ENODEV if the link is gone. */
  ingressFilter(index: number, place: FilterPlace): Filter | undefined {
    // EINVAL: the link has no clsact qdisc, which would hold the filter.
    const answer = this.#socket.getIfThere(getIngressFilter(index, place), [ENOENT, EINVAL])
    return answer === undefined ? undefined : decodeFilter(answer.body)
  }

  /** Makes a link. Fails with EEXIST if the name is taken. */
  add(name: string, kind: string): void {
    this.#socket.change(newLink(name, kind))
  }

  /**
   * Makes one change. Fails with EEXIST if what it adds exists, with EADDRNOTAVAIL, ESRCH or ENOENT if what it removes
   * does not (an address, route or neighbour), and with ENODEV if the link to add to is gone.
   */
  change(index: number, change: LinkChange): void {
    this.#socket.change(encodeChange(index, change))
  }

  set(index: number, settings: LinkSettings): void {
    this.#socket.change(setLink(index, settings))
  }

  close(): void {
    this.#socket.close()
  }
}

function addTo<T>(lists: Map<number, T[]>, key: number, item: T): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [item])
  else list.push(item)
}
