import { setImmediate } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { NETLINK_NETFILTER, NetlinkSocket } from '../netlink/netlink-socket.ts'
import { deleteConnection, getConnections } from './conntrack-codec.ts'

/** The kernel's table of connections. */
export class Connections {
  readonly #socket = new NetlinkSocket(NETLINK_NETFILTER)

  /**
   * Removes the connections in which these addresses take part, so that the next packet is judged as the first of a
   * connection. Each dump reads the whole table: some milliseconds for 100,000 connections. Other tasks run in between.
   * Throws ErrnoError.
   */
  async forget(addresses: Iterable<string>): Promise<void> {
    for (const address of addresses) {
      for (const direction of ['original', 'reply'] as const) {
        await setImmediate()
        await this.#remove(this.#socket.dump(getConnections(address, direction)).map(({ body }) => body))
      }
    }
  }

  close(): void {
    this.#socket.close()
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
