import { parseDeviceName } from '../../core/network/device-name.ts'
import { NETLINK_ROUTE } from '../netlink/calls.ts'
import { NetlinkEvents } from '../netlink/netlink-events.ts'
import { decodeLinkEvent, LINK_GROUPS } from '../netlink/route-events.ts'
import { tapOfQueue } from './queue-device.ts'
import type { DeviceName } from '../../core/vm/ids.ts'
import type { Message } from '../netlink/message.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/** The tap that a device is, or is the queue of; undefined for devices that have nothing to do with us. */
export const tapOf = (name: string): DeviceName | undefined =>
  parseDeviceName(name) === undefined ? tapOfQueue(name) : (name as DeviceName)

/**
 * Tells of changes to taps and to what is on them, whoever makes them: each tap once for all that came in one turn of the
 * event loop. Throws ErrnoError.
 */
export class TapWatch {
  readonly #links: Rtnetlink
  readonly #onChange: (device: DeviceName | undefined) => void
  /** By index: all that is told of a device but its own coming and going has only that. */
  readonly #taps = new Map<number, DeviceName>()
  readonly #events: NetlinkEvents

  constructor(links: Rtnetlink, onChange: (device: DeviceName | undefined) => void) {
    this.#links = links
    this.#onChange = onChange
    this.#events = new NetlinkEvents({
      protocol: NETLINK_ROUTE,
      groups: LINK_GROUPS,
      onEvents: (messages) => this.#tell(messages),
      onLost: () => {
        try {
          this.#learn()
        } catch {
          // Too much turmoil for a list; what came meanwhile stays unknown here, until it is heard of next.
        }
        onChange(undefined)
      },
    })
    this.#learn()
  }

  /** Tells now what came already. After a change of our own: then one look afterwards sees it all, and not one more. */
  catchUp(): void {
    this.#events.read()
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

  #tell(messages: readonly Message[]): void {
    const changed = new Set<DeviceName>()
    for (const message of messages) {
      for (const device of this.#devicesOf(message)) changed.add(device)
    }
    for (const device of changed) this.#onChange(device)
  }

  /** Two where a device took or left a name of ours. */
  #devicesOf(message: Message): readonly DeviceName[] {
    const event = decodeLinkEvent(message)
    if (event === undefined) return []
    // The kernel tells everybody of what we only asked (getRootQdisc): to look because of that would never end.
    if (event.kind === 'traffic-control' && message.port === this.#links.port) return []
    const known = this.#taps.get(event.index)
    if (event.kind !== 'link' && event.kind !== 'link-gone') return known === undefined ? [] : [known]
    const named = tapOf(event.name)
    if (event.kind === 'link-gone' || named === undefined) this.#taps.delete(event.index)
    else this.#taps.set(event.index, named)
    return [known, named].filter((device) => device !== undefined)
  }
}
