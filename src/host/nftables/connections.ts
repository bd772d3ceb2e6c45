/** Forgets connections, by requests of connection tracking over netlink (linux/netfilter/nfnetlink_conntrack.h). */
import { setImmediate } from 'node:timers/promises'
import { formatAddress, membersOf, parseAddress } from '../../core/network/address.ts'
import { assert } from '../../lib/assert.ts'
import { decodeAttributes, encodeAttribute, encodeUint32 } from '../netlink/message.ts'
import { limits } from '../../config/limits.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { NETLINK_NETFILTER, NetlinkSocket } from '../netlink/netlink-socket.ts'
import { attributesOf, header, nest } from './nfnetlink.ts'
import type { Request } from '../netlink/netlink-socket.ts'

const NFNL_SUBSYS_CTNETLINK = 1
const IPCTNL_MSG_CT_GET = 1
const IPCTNL_MSG_CT_DELETE = 2
const AF_INET = 2
const AF_INET6 = 10

const CTA_TUPLE_ORIG = 1
const CTA_ID = 12
const CTA_ZONE = 18
const CTA_FILTER = 25
const CTA_TUPLE_IP = 1
const CTA_IP_V4_SRC = 1
const CTA_IP_V6_SRC = 3
/** The part of a filter's tuple that is compared: its source (net/netfilter/nf_internals.h). */
const CTA_FILTER_F_CTA_IP_SRC = 1

/**
 * The two directions of a connection: the attribute of the tuple, and the filter attribute with the parts of it to
 * compare.
 */
const DIRECTIONS = {
  original: { tuple: CTA_TUPLE_ORIG, flags: 1 },
  reply: { tuple: 2, flags: 2 },
} as const
type Direction = keyof typeof DIRECTIONS

const messageType = (message: number): number => (NFNL_SUBSYS_CTNETLINK << 8) | message

/**
 * Requests all connections in which packets of that direction come from an address. Together the two directions give
 * every connection that the address opened or answers in, whatever its addresses are translated to (Linux 5.8).
 */
export function getConnections(address: string, direction: Direction): Request {
  const source = parseAddress(address)
  assert(source !== undefined, `${address} is not an address`)
  const { tuple, flags } = DIRECTIONS[direction]
  const isIpv4 = source.length === 4
  return {
    what: `get the connections of ${address}`,
    type: messageType(IPCTNL_MSG_CT_GET),
    body: Buffer.concat([
      header(isIpv4 ? AF_INET : AF_INET6),
      nest(tuple, nest(CTA_TUPLE_IP, encodeAttribute(isIpv4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, source))),
      nest(CTA_FILTER, encodeAttribute(flags, encodeUint32(CTA_FILTER_F_CTA_IP_SRC))),
    ]),
  }
}

/** Requests all connections over IPv6. The kernel compares no part of an address, so a network cannot be asked for. */
const getIpv6Connections = (): Request => ({
  what: 'get the connections over IPv6',
  type: messageType(IPCTNL_MSG_CT_GET),
  body: header(AF_INET6),
})

/** Decodes the addresses from which the packets of a connection over IPv6 come, one for each direction. */
export const sourcesOf = (body: Buffer): readonly Buffer[] => {
  const attributes = attributesOf(body)
  return Object.values(DIRECTIONS).flatMap(({ tuple }) => {
    const addresses = decodeAttributes(attributes.get(tuple) ?? Buffer.alloc(0)).get(CTA_TUPLE_IP)
    const source = decodeAttributes(addresses ?? Buffer.alloc(0)).get(CTA_IP_V6_SRC)
    return source === undefined ? [] : [source]
  })
}

/**
 * Requests the removal of one connection that {@link getConnections} returned. The kernel's number makes sure that it
 * is the same one.
 */
export function deleteConnection(body: Buffer): Request {
  const attributes = attributesOf(body)
  const named = [CTA_TUPLE_ORIG, CTA_ZONE, CTA_ID].flatMap((type) => {
    const value = attributes.get(type)
    if (value === undefined) return []
    return [type === CTA_TUPLE_ORIG ? nest(type, value) : encodeAttribute(type, value)]
  })
  // Without a tuple the kernel would remove every connection of the host.
  assert(attributes.has(CTA_TUPLE_ORIG), 'a connection without addresses')
  return {
    what: 'delete a connection',
    type: messageType(IPCTNL_MSG_CT_DELETE),
    body: Buffer.concat([header(body[0] ?? 0), ...named]),
  }
}

/** The kernel's table of connections. */
export class Connections {
  readonly #socket = new NetlinkSocket(NETLINK_NETFILTER)

  /**
   * Removes the connections in which an address takes part, so that the next packet is judged as the first of a
   * connection. For each direction the kernel reads its whole table. Throws ErrnoError.
   */
  async forget(address: string): Promise<void> {
    for (const direction of ['original', 'reply'] as const)
      await this.#remove(await this.#read(getConnections(address, direction)))
  }

  /**
   * Removes the connections in which an address of an IPv6 network takes part, except for addresses that are kept. All
   * connections over IPv6 are read for it. Throws ErrnoError.
   */
  async forgetNetwork(network: string, isKept: (address: string) => boolean): Promise<void> {
    const isMember = membersOf(network)
    const isLeft = (address: Buffer): boolean => isMember(address) && !isKept(formatAddress(address))
    await this.#remove(await this.#read(getIpv6Connections(), (body) => sourcesOf(body).some(isLeft)))
  }

  close(): void {
    this.#socket.close()
  }

  /**
   * Returns the wanted connections of a dump. Other tasks run between its datagrams, of some hundred connections each.
   */
  async #read(
    request: Request,
    isWanted: (body: Buffer) => boolean = () => true,
  ): Promise<readonly Buffer[]> {
    const found: Buffer[] = []
    for await (const page of this.#socket.pages(request)) {
      for (const { body } of page) if (isWanted(body)) found.push(body)
    }
    return found
  }

  async #remove(connections: readonly Buffer[]): Promise<void> {
    for (const [index, connection] of connections.entries()) {
      if (index % limits.connectionsPerTurn === limits.connectionsPerTurn - 1) await setImmediate()
      try {
        this.#socket.change(deleteConnection(connection))
      } catch (error) {
        // The connection ended meanwhile.
        if (!hasErrno(error, 'ENOENT')) throw error
      }
    }
  }
}
