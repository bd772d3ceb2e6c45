import { NETLINK_ROUTE, NetlinkSocket } from './netlink-socket.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import {
  AF_INET,
  AF_INET6,
  decodeAddress,
  decodeLink,
  decodePermanentNeighbour,
  decodeRoute,
  dumpAddresses,
  dumpLinks,
  dumpNeighbours,
  dumpRoutes,
  getLink,
  setLinkAlias,
} from './route-codec.ts'
import type { Link } from './route-codec.ts'

/** The kernel's links and what is on them, read without a program. Every method throws ErrnoError. */
export class Rtnetlink {
  readonly #socket = new NetlinkSocket(NETLINK_ROUTE)

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

  setAlias(index: number, alias: string): void {
    this.#socket.change(setLinkAlias(index, alias))
  }

  close(): void {
    this.#socket.close()
  }
}
