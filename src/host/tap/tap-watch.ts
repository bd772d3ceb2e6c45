import { parseDeviceName } from '../../core/network/tap.ts'
import { NETLINK_ROUTE } from '../netlink/calls.ts'
import { NetlinkEvents } from '../netlink/netlink-events.ts'
import { decodeLinkEvent, isRouteMessage, LINK_GROUPS } from '../netlink/route-events.ts'
import { tapOfQueue } from './tap-names.ts'
import type { DeviceName } from '../../core/ids.ts'
import type { Message } from '../netlink/message.ts'
import type { LinkEvent } from '../netlink/route-events.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/** Returns the tap that a device is, or whose queue it is; undefined for any other device. */
export const tapOf = (name: string): DeviceName | undefined =>
  parseDeviceName(name) === undefined ? tapOfQueue(name) : (name as DeviceName)

/**
 * Reports changes of taps, and of what is on them, by any program. Each tap is reported once per turn of the event
 * loop. Throws ErrnoError.
 */
export class TapWatch {
  readonly #links: Rtnetlink
  readonly #onChange: (device: DeviceName | undefined) => void
  readonly #onTablesChange: () => void
  /** The taps by index. Messages about a device contain only its index, except for its own coming and going. */
  readonly #taps = new Map<number, DeviceName>()
  readonly #events: NetlinkEvents

  /** @param onTablesChange is called after each change of links, of routes, and of permanent neighbours of taps */
  constructor(
    links: Rtnetlink,
    onChange: (device: DeviceName | undefined) => void,
    onTablesChange: () => void = () => {},
  ) {
    this.#links = links
    this.#onChange = onChange
    this.#onTablesChange = onTablesChange
    this.#events = new NetlinkEvents({
      protocol: NETLINK_ROUTE,
      groups: LINK_GROUPS,
      onEvents: (messages) => this.#notify(messages),
      onLost: () => {
        onTablesChange()
        try {
          this.#learn()
        } catch {
          // The list changed too often to be read. Devices that were missed stay unknown here until their next message.
        }
        onChange(undefined)
      },
    })
    this.#learn()
  }

  /** Reports pending changes now. After a change of our own, a single inspection then sees everything. */
  catchUp(): void {
    // What is not read yet may be a change of the tables.
    if (!this.#events.read()) this.#onTablesChange()
  }

  close(): void {
    this.#events.close()
  }

  #learn(): void {
    this.#taps.clear()
    for (const kind of ['tun', 'ifb']) {
      for (const { index, name } of this.#links.links(kind)) {
        const device = tapOf(name)
        if (device !== undefined) this.#taps.set(index, device)
      }
    }
  }

  #notify(messages: readonly Message[]): void {
    const changed = new Set<DeviceName>()
    const events = messages.map((message) => ({ message, event: decodeLinkEvent(message) }))
    if (events.some(({ message, event }) => this.#changesTables(message, event))) this.#onTablesChange()
    for (const { message, event } of events) {
      if (event === undefined) continue
      for (const device of this.#devicesOf(event, message)) changed.add(device)
    }
    for (const device of changed) this.#onChange(device)
  }

  /** Returns whether a message may change the routes or permanent neighbours of a tap. A route may have several links. */
  #changesTables(message: Message, event: LinkEvent | undefined): boolean {
    if (event === undefined) return isRouteMessage(message)
    // Hosts learn and forget neighbours all the time.
    if (event.kind === 'neighbours') return this.#taps.has(event.index)
    return event.kind !== 'traffic-control' && event.kind !== 'addresses'
  }

  /** Returns the taps that a message is about: two if a device got or lost a name of ours. */
  #devicesOf(event: LinkEvent, { port }: Message): readonly DeviceName[] {
    // The kernel multicasts our own questions too (getRootQdisc). Inspecting because of them would never end.
    if (event.kind === 'traffic-control' && port === this.#links.port) return []
    const known = this.#taps.get(event.index)
    if (event.kind !== 'link' && event.kind !== 'link-gone') return known === undefined ? [] : [known]
    const named = tapOf(event.name)
    if (event.kind === 'link-gone' || named === undefined) this.#taps.delete(event.index)
    else this.#taps.set(event.index, named)
    return [known, named].filter((device) => device !== undefined)
  }
}
