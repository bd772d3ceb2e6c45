import { constants } from 'node:os'
import { HostFault } from '../../core/errors.ts'
import { assert } from '../../lib/assert.ts'
import { given } from '../../lib/given.ts'
import { ErrnoError, hasErrno } from '../ffi/errno-error.ts'
import { Rtnetlink } from '../netlink/rtnetlink.ts'
import { attachAgain } from './attach-again.ts'
import { BandwidthLimits } from './bandwidth-limits.ts'
import { createTap } from './tun-control.ts'
import { deleteLink } from './delete-link.ts'
import { tapChanges } from './configure-tap.ts'
import { applySettings, settingsOf } from './device-settings.ts'
import { LinkTables } from './link-tables.ts'
import { refusingRoute, routedElsewhere, routeInTheWay } from './other-routes.ts'
import { formatTapMark, parseTapMark } from './tap-names.ts'
import { tapOf, TapWatch } from './tap-watch.ts'
import { makingDrift, parseDeviceName, tapLayout } from '../../core/network/tap.ts'
import { tapSettings } from '../../core/network/tap-settings.ts'
import type { LinkCounters } from '../../core/world/counters.ts'
import type { TapLayout, TapSpec } from '../../core/network/tap.ts'
import type { TapFacts, TapMaking, TapState } from '../../core/world/network-state.ts'
import type { DeviceName, VmId } from '../../core/ids.ts'
import type { Taps } from '../../ports/network.ts'
import type { LinkChange } from '../netlink/link-change.ts'
import type { Link } from '../netlink/route-codec.ts'

/** The layout of a tap that was just made. */
const NEW: TapLayout = { addresses: [], routes: [], neighbours: [] }

/**
 * Manages one routed tap per VM, in the network namespace of the daemon. The host side has the gateway's addresses. The
 * guest's addresses are routed to the device and have permanent neighbour entries. No packet of a guest can change
 * those. With them the first packet to a sleeping guest is sent without ARP or neighbour discovery.
 *
 * Only its interface alias makes a tap ours, which a monitor cannot change. A device with a VM's name but without that
 * VM's mark is never touched.
 */
export class RoutedTaps implements Taps {
  readonly #storeId: string
  readonly #links = new Rtnetlink()
  readonly #limits = new BandwidthLimits(this.#links)
  readonly #watchers: ((device: DeviceName | undefined) => void)[] = []
  readonly #tables = new LinkTables(this.#links)
  #watch: TapWatch | undefined

  /** @param storeId distinguishes our taps from those of another daemon; without colons and blanks */
  constructor({ storeId }: { readonly storeId: string }) {
    assert(/^[^:\s]+$/.test(storeId), 'a store id stands in an interface alias')
    this.#storeId = storeId
  }

  async inspect(device: DeviceName, id: VmId): Promise<TapState> {
    try {
      return this.#read(device, id)
    } catch (error) {
      throw failed(`inspecting tap ${device} of VM ${id}`, error)
    }
  }

  async ensure(spec: TapSpec): Promise<void> {
    const { device, vmId, userId } = spec
    const mark = this.#mark(vmId)
    try {
      const found = await this.#asMade(spec)
      const link = found ?? (await this.#create(spec))
      applySettings(this.#links, link, tapSettings(spec))
      // The kernel would go through what is on all links to say that nothing is on a new one.
      const facts = found === undefined ? this.#factsOf(link, NEW) : this.#facts(link)
      await this.#clearTheWay(spec, link, facts)
      // Each is a request of its own, and the first that fails ends it: in a datagram with several, the kernel would
      // continue with those after the one that failed.
      for (const change of tapChanges(spec, facts)) this.#change(vmId, link, change)
      await this.#limits.ensure(device, { wanted: spec.bandwidth ?? {}, now: facts.bandwidth, mark })
    } catch (error) {
      throw failed(`setting up tap ${device} of VM ${vmId} for user ${userId}`, error)
    } finally {
      this.#watch?.catchUp()
    }
  }

  async ensureAttached(spec: TapSpec, mainPid: number): Promise<void> {
    const { device, vmId, userId } = spec
    const doing = `giving monitor ${mainPid} of VM ${vmId} its tap ${device} back`
    try {
      this.#present(spec)
    } catch (error) {
      throw failed(doing, error)
    }
    try {
      await attachAgain(device, mainPid, userId)
    } catch (error) {
      // Either error means that a new inspection is needed: the process ended, or another one has just taken the
      // device.
      const retry = hasErrno(error, 'ESRCH', 'ENOENT', 'EBUSY') ? { retry: 'soon' as const } : {}
      throw new HostFault('monitor_detached', doing, { cause: error, ...retry })
    } finally {
      this.#watch?.catchUp()
    }
  }

  async remove(device: DeviceName, id: VmId): Promise<void> {
    try {
      await this.#delete(device, id)
      await this.#limits.removeQueue(device, this.#mark(id))
    } catch (error) {
      throw failed(`removing tap ${device} of VM ${id}`, error)
    } finally {
      this.#watch?.catchUp()
    }
  }

  async list(): Promise<
    readonly { readonly device: DeviceName; readonly id: VmId; readonly storeId: string }[]
  > {
    try {
      const taps = this.#links.links('tun').filter(({ tap }) => tap !== undefined)
      // A tap that another program deleted may leave its queue device behind. Removing the tap removes that too.
      const queues = this.#links.links('ifb')
      const found = new Map([...queues, ...taps].map(({ name, alias }) => [tapOf(name) ?? name, alias]))
      return [...found].flatMap(([device, alias]) => {
        const mark = parseTapMark(alias ?? '')
        return mark === undefined ? [] : [{ device: device as DeviceName, ...mark }]
      })
    } catch (error) {
      throw failed('listing taps', error)
    }
  }

  /** Returns a tap's counters. Drops because of a limit are counted since the limit was last introduced. */
  async counters(device: DeviceName): Promise<LinkCounters> {
    try {
      const link = this.#links.link(device)
      if (link?.tap === undefined || parseTapMark(link.alias ?? '')?.storeId !== this.#storeId) {
        throw new ErrnoError(`find tap ${device}`, constants.errno.ENODEV)
      }
      const statistics = this.#links.statistics(device)
      const drops = this.#limits.drops(link)
      // The host receives from a tap what its guest transmitted.
      return {
        receivedBytes: statistics.transmittedBytes,
        receivedPackets: statistics.transmittedPackets,
        transmittedBytes: statistics.receivedBytes,
        transmittedPackets: statistics.receivedPackets,
        receiveDroppedPackets: statistics.transmitDroppedPackets + drops.toGuest,
        receiveLimitedPackets: drops.toGuest,
        transmitDroppedPackets: drops.fromGuest,
      }
    } catch (error) {
      throw failed(`reading the counters of tap ${device}`, error)
    }
  }

  watch(onChange: (device: DeviceName | undefined) => void): void {
    try {
      this.#watchers.push(onChange)
      this.#watch ??= new TapWatch(
        this.#links,
        (device) => {
          for (const watcher of this.#watchers) watcher(device)
        },
        () => this.#tables.forget(),
      )
    } catch (error) {
      throw failed('watching taps', error)
    }
  }

  close(): void {
    this.#watch?.close()
    this.#links.close()
  }

  #mark(id: VmId): string {
    return formatTapMark({ storeId: this.#storeId, id })
  }

  #read(device: DeviceName, id: VmId): TapState {
    const link = this.#links.link(device)
    if (link === undefined) return { kind: 'absent' }
    const because = foreignness(link, this.#mark(id))
    if (because !== undefined) return { kind: 'foreign', because }
    try {
      return { kind: 'present', facts: this.#facts(link) }
    } catch (error) {
      // It was removed between two reads.
      if (hasErrno(error, 'ENODEV')) return { kind: 'absent' }
      throw error
    }
  }

  #facts(link: Link): TapFacts {
    // What changed until now must not be taken from what was kept before. Without a watch nothing is kept.
    if (this.#watch === undefined) this.#tables.forget()
    else this.#watch.catchUp()
    const { index } = link
    return this.#factsOf(link, { addresses: this.#links.addresses(index), ...this.#tables.of(index) })
  }

  #factsOf(link: Link, layout: TapLayout): TapFacts {
    const { up, carrier, master } = link
    return {
      ...makingOf(link),
      up,
      ...given({ memberOf: master === undefined ? undefined : this.#nameOf(master) }),
      attached: carrier,
      bandwidth: this.#limits.read(link),
      settings: settingsOf(link),
      ...layout,
    }
  }

  #nameOf(index: number): string {
    return this.#links.linkAt(index)?.name ?? `link ${index}`
  }

  /**
   * Removes a tap of the VM that another program has renamed, if it has a route to the guest. No rule of the firewall
   * names such a tap. A tap with the VM's mark and a name of ours is not removed: it belongs to another VM with the
   * same id, whose record is not here. Throws `network_failed` if the host has any other route to an address or
   * the prefix of the guest.
   */
  async #clearTheWay(spec: TapSpec, tap: Link, { routes }: TapFacts): Promise<void> {
    const { vmId } = spec
    for (const route of tapLayout(spec).routes) {
      if (routes.includes(route)) continue
      const other = routeInTheWay(this.#links, route, tap)
      if (other === undefined) continue
      const { link } = other
      const isTapOfVm = link?.tap !== undefined && link.alias === this.#mark(vmId)
      const isRenamed = isTapOfVm && parseDeviceName(link.name) === undefined
      if (!isRenamed) throw routedElsewhere(vmId, route, other)
      await this.#delete(link.name, vmId)
    }
  }

  #change(vmId: VmId, tap: Link, change: LinkChange): void {
    try {
      this.#links.change(tap.index, change)
    } catch (error) {
      if (change.kind !== 'add-route' || !hasErrno(error, 'EEXIST')) throw error
      const other = refusingRoute(this.#links, change.route, tap)
      throw other === undefined ? error : routedElsewhere(vmId, change.route, other)
    }
  }

  /** Returns the VM's device if there is one, a member of no other. Deletes it first if it must be made again. */
  async #asMade(spec: TapSpec): Promise<Link | undefined> {
    const link = this.#ours(spec)
    if (link === undefined) return undefined
    if (makingDrift(spec, makingOf(link)).length > 0) {
      await this.#delete(spec.device, spec.vmId)
      return undefined
    }
    if (link.master === undefined) return link
    this.#links.set(link.index, { master: 0 })
    // Some devices take what is on a member with them, e.g. a VRF.
    return this.#present(spec)
  }

  #delete(device: string, id: VmId): Promise<void> {
    return deleteLink(device, () => {
      const link = this.#links.link(device)
      return link?.tap !== undefined && link.alias === this.#mark(id)
    })
  }

  async #create(spec: TapSpec): Promise<Link> {
    const { device, vmId, userId } = spec
    await createTap(this.#links, { device, userId, mark: this.#mark(vmId) })
    return this.#present(spec)
  }

  /**
   * Returns the VM's device. Throws ENODEV if there is none, and `tap_name_taken` for a device that is not the VM's.
   */
  #present(spec: TapSpec): Link {
    const link = this.#ours(spec)
    if (link === undefined) throw new ErrnoError(`find tap ${spec.device}`, constants.errno.ENODEV)
    return link
  }

  /** Returns the VM's device, if there is one. Throws `tap_name_taken` for a device that is not the VM's. */
  #ours({ device, vmId }: TapSpec): Link | undefined {
    const link = this.#links.link(device)
    const because = link === undefined ? undefined : foreignness(link, this.#mark(vmId))
    if (because === undefined) return link
    throw new HostFault('tap_name_taken', `setting up tap ${device} of VM ${vmId}: ${because}`)
  }
}

function foreignness({ kind, tap, alias }: Link, mark: string): string | undefined {
  if (tap === undefined)
    return kind === undefined ? 'it is a hardware device' : `it is a ${kind} device and no tap`
  if (alias === undefined) return 'it is a tap without the mark of vmhostd'
  if (alias !== mark) return `its alias is ${JSON.stringify(alias)} and not ${mark}`
  return undefined
}

const makingOf = ({ tap, macAddress = '' }: Link): TapMaking => ({ ...tap, macAddress })

function failed(doing: string, error: unknown): HostFault {
  if (error instanceof HostFault) return error
  const retry = hasErrno(error, 'EINTR', 'EAGAIN', 'EBUSY', 'ENODEV') ? { retry: 'soon' as const } : {}
  return new HostFault('network_failed', doing, { cause: error, ...retry })
}
