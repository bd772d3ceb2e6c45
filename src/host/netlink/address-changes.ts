import { NETLINK_ROUTE } from './calls.ts'
import { NetlinkEvents } from './netlink-events.ts'
import { ADDRESS_GROUPS } from './route-events.ts'

/**
 * Watches for changes of the addresses and routes of all links, and of the links themselves. It opens in the network
 * namespace of the calling thread. Throws ErrnoError.
 */
export class AddressChanges {
  #changed = true
  readonly #events = new NetlinkEvents({
    protocol: NETLINK_ROUTE,
    groups: ADDRESS_GROUPS,
    onEvents: () => this.#note(),
    onLost: () => this.#note(),
  })

  /** Returns whether something has changed since the last call, by any program; true for the first call. */
  take(): boolean {
    this.#events.read()
    const changed = this.#changed
    this.#changed = false
    return changed
  }

  close(): void {
    this.#events.close()
  }

  #note(): void {
    this.#changed = true
  }
}
