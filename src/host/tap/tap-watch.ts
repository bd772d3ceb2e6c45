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
  /**
   * Whether messages show what a tap is now. After a loss they do not, until the taps were read again (`missed`) and
   * no message from before that reading can come (`late`).
   */
  #messages: 'current' | 'late' | 'missed' = 'current'
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
        this.#messages = 'missed'
        this.#learnMissed()
        onChange(undefined)
      },
    })
    this.#learn()
  }

  /** Reports pending changes now. After a change of our own, a single inspection then sees everything. */
  catchUp(): void {
    // What is not read yet may be a change of the tables.
    const all = this.#events.read()
    if (!all) this.#onTablesChange()
    this.#learnMissed()
    if (all && this.#messages === 'late') this.#messages = 'current'
  }

  close(): void {
    this.#events.close()
  }

  /** Reads the taps. Returns those that are not as they were known. */
  #learn(): ReadonlySet<DeviceName> {
    const before = new Map(this.#taps)
    const links = ['tun', 'ifb'].flatMap((kind) => this.#links.links(kind))
    this.#taps.clear()
    const changed = new Set<DeviceName>()
    for (const link of links) {
      const device = tapOf(link.name)
      if (device === undefined) continue
      this.#taps.set(link.index, { device, link })
      if (isDeepStrictEqual(link, before.get(link.index)?.link)) before.delete(link.index)
      else changed.add(device)
    }
    for (const { device } of before.values()) changed.add(device)
    return changed
  }

  /** Reads the taps again if changes were lost, at most once in a time: a guest can cause losses without end. */
  #learnMissed(): void {
    if (this.#messages !== 'missed' || !this.#readings.take(performance.now())) return
    let changed: ReadonlySet<DeviceName>
    try {
      changed = this.#learn()
    } catch {
      // The list changed too often to be read. Devices that were missed stay unknown here until their next message.
      return
    }
    this.#messages = 'late'
    for (const device of changed) this.#onChange(device)
  }

  #notify(messages: readonly Message[]): void {
    const changed = new Set<DeviceName>()
    const asked = new Map<number, Link | undefined>()
    let changesTables = false
    for (const message of messages) {
      const event = decodeLinkEvent(message)
      const link = event?.kind === 'link' ? this.#linkIn(event, message, asked) : undefined
      if (link !== undefined && this.#isAsKnown(link)) continue
      changesTables ||= this.#changesTables(message, event)
      for (const device of this.#devicesOf(event, message, link)) changed.add(device)
    }
    if (changesTables) this.#onTablesChange()
    for (const device of changed) this.#onChange(device)
  }

  /**
   * Returns the link that a message is about, if it is or becomes one of our taps. A message that may be older than
   * what is known does not count: the kernel is asked, once for each link in `asked`.
   */
  #linkIn(
    { index, name }: Extract<LinkEvent, { readonly name: string }>,
    { body }: Message,
    asked: Map<number, Link | undefined>,
  ): Link | undefined {
    if (!this.#taps.has(index) && tapOf(name) === undefined) return undefined
    if (this.#messages === 'current') return decodeLink(body)
    if (!asked.has(index)) asked.set(index, this.#linkNow(index))
    return asked.get(index) ?? decodeLink(body)
  }

  /** Returns the link as it is now; undefined if it is gone, or cannot be read. */
  #linkNow(index: number): Link | undefined {
    try {
      return this.#links.linkAt(index)
    } catch {
      return undefined
    }
  }

  /**
   * Returns whether a link is one of our taps as it is known. A monitor can cause such messages without end: it sets
   * what is set already, or offloads, which are not shown.
   */
  #isAsKnown(link: Link): boolean {
    return isDeepStrictEqual(this.#taps.get(link.index)?.link, link)
  }

  /**
   * Returns whether a message may change the routes or permanent neighbours of a tap. A route may have several links.
   */
  #changesTables(message: Message, event: LinkEvent | undefined): boolean {
    if (event === undefined) return isRouteMessage(message)
    // Hosts learn and forget neighbours all the time.
    if (event.kind === 'neighbours') return this.#taps.has(event.index)
    return event.kind !== 'traffic-control' && event.kind !== 'addresses'
  }

  /**
   * Returns the taps that a message is about: two if a device got or lost a name of ours.
   *
   * @param link as {@link #linkIn} returns it
   */
  #devicesOf(event: LinkEvent | undefined, { port }: Message, link: Link | undefined): readonly DeviceName[] {
    if (event === undefined) return []
    // The kernel multicasts our own questions too (`rootQdisc`). Inspecting because of them would never end.
    if (event.kind === 'traffic-control' && port === this.#links.port) return []
    const known = this.#taps.get(event.index)?.device
    if (event.kind !== 'link' && event.kind !== 'link-gone') return known === undefined ? [] : [known]
    const named = tapOf(link?.name ?? event.name)
    if (link === undefined || named === undefined) this.#taps.delete(event.index)
    else this.#taps.set(event.index, { device: named, link })
    return [known, named].filter((device) => device !== undefined)
  }
}
