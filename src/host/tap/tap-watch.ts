import { isDeepStrictEqual } from 'node:util'
import { limits } from '../../config/limits.ts'
import { parseDeviceName } from '../../core/network/tap.ts'
import { NETLINK_ROUTE } from '../netlink/calls.ts'
import { NetlinkEvents } from '../netlink/netlink-events.ts'
import { decodeLink } from '../netlink/route-codec.ts'
import { decodeLinkEvent, isRouteMessage, LINK_GROUPS } from '../netlink/route-events.ts'
import { tapOfQueue } from './tap-names.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import type { DeviceName } from '../../core/ids.ts'
import type { Message } from '../netlink/message.ts'
import type { Link } from '../netlink/route-codec.ts'
import type { LinkEvent } from '../netlink/route-events.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/** Returns the tap that a device is, or whose queue it is; undefined for any other device. */
export const tapOf = (name: string): DeviceName | undefined =>
  parseDeviceName(name) === undefined ? tapOfQueue(name) : (name as DeviceName)

/** A tap of ours or its queue device, as it was last shown. */
type Known = { readonly device: DeviceName; readonly link: Link }

/**
 * Reports changes of taps, and of what is on them, by any program. Each tap is reported once per turn of the event
 * loop. Throws ErrnoError.
 */
export class TapWatch {
  readonly #links: Rtnetlink
  readonly #onChange: (device: DeviceName | undefined) => void
  readonly #onTablesChange: () => void
  /** The taps by index. Messages about a device contain only its index, except for its own coming and going. */
  readonly #taps = new Map<number, Known>()
  readonly #events: NetlinkEvents
  /** Whether changes were lost since the taps were read. */
  #missed = false
  readonly #readings = new TokenBucket({
    perSecond: 1000 / limits.lostTapsReadEveryMs,
    burst: 1,
    nowMs: performance.now(),
  })

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
        this.#missed = true
        this.#learnMissed()
        onChange(undefined)
      },
    })
    this.#learn()
  }

  /** Reports pending changes now. After a change of our own, a single inspection then sees everything. */
  catchUp(): void {
    // What is not read yet may be a change of the tables.
    if (!this.#events.read()) this.#onTablesChange()
    this.#learnMissed()
  }

  close(): void {
    this.#events.close()
  }

  #learn(): void {
    this.#taps.clear()
    for (const kind of ['tun', 'ifb']) {
      for (const link of this.#links.links(kind)) {
        const device = tapOf(link.name)
        if (device !== undefined) this.#taps.set(link.index, { device, link })
      }
    }
  }

  /** Reads the taps again if changes were lost, at most once in a time: a guest can cause losses without end. */
  #learnMissed(): void {
    if (!this.#missed || !this.#readings.take(performance.now())) return
    try {
      this.#learn()
      this.#missed = false
    } catch {
      // The list changed too often to be read. Devices that were missed stay unknown here until their next message.
    }
  }

  #notify(messages: readonly Message[]): void {
    const changed = new Set<DeviceName>()
    let changesTables = false
    for (const message of messages) {
      const event = decodeLinkEvent(message)
      if (event?.kind === 'link' && this.#isAsKnown(event.index, message)) continue
      changesTables ||= this.#changesTables(message, event)
      for (const device of this.#devicesOf(event, message)) changed.add(device)
    }
    if (changesTables) this.#onTablesChange()
    for (const device of changed) this.#onChange(device)
  }

  /**
   * Returns whether a message shows one of our taps as it is known. A monitor can cause such messages without end: it sets
   * what is set already, or offloads, which are not shown.
   */
  #isAsKnown(index: number, { body }: Message): boolean {
    const known = this.#taps.get(index)
    return known !== undefined && isDeepStrictEqual(known.link, decodeLink(body))
  }

  /** Returns whether a message may change the routes or permanent neighbours of a tap. A route may have several links. */
  #changesTables(message: Message, event: LinkEvent | undefined): boolean {
    if (event === undefined) return isRouteMessage(message)
    // Hosts learn and forget neighbours all the time.
    if (event.kind === 'neighbours') return this.#taps.has(event.index)
    return event.kind !== 'traffic-control' && event.kind !== 'addresses'
  }

  /** Returns the taps that a message is about: two if a device got or lost a name of ours. */
  #devicesOf(event: LinkEvent | undefined, { port, body }: Message): readonly DeviceName[] {
    if (event === undefined) return []
    // The kernel multicasts our own questions too (getRootQdisc). Inspecting because of them would never end.
    if (event.kind === 'traffic-control' && port === this.#links.port) return []
    const known = this.#taps.get(event.index)?.device
    if (event.kind !== 'link' && event.kind !== 'link-gone') return known === undefined ? [] : [known]
    const named = tapOf(event.name)
    if (event.kind === 'link-gone' || named === undefined) this.#taps.delete(event.index)
    else this.#taps.set(event.index, { device: named, link: decodeLink(body) })
    return [known, named].filter((device) => device !== undefined)
  }
}
