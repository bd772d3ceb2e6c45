import { HostFault } from '../../core/errors.ts'
import { run } from '../exec/exec.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { deleteLink } from './delete-link.ts'
import { queueDevice } from './tap-names.ts'
import { applySettings } from './device-settings.ts'
import { OUR_FILTER, OUR_QDISC, tcBatch } from './tc-batch.ts'
import { given } from '../../lib/given.ts'
import type { Bandwidth } from '../../core/desired.ts'
import type { DeviceName } from '../../core/ids.ts'
import type { Link } from '../netlink/route-codec.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/**
 * Reads and sets the bandwidth limits of taps, as tcBatch describes them. Throws ErrnoError, ExitError, and HostFault
 * from `run`.
 */
export class BandwidthLimits {
  readonly #links: Rtnetlink

  constructor(links: Rtnetlink) {
    this.#links = links
  }

  /**
   * Returns the limits in force. The limit to transmit is 0 if a guest's packets are sent to a queue device that does
   * not take them.
   */
  read(link: Link): Bandwidth {
    const receive = this.#rateOn(link)
    const transmit = this.#transmitRate(link.name as DeviceName, link.index)
    return given({ receiveMbitPerSecond: receive, transmitMbitPerSecond: transmit })
  }

  /** Changes the limits in force to the wanted ones. The mark shows the owner of the queue device. */
  async ensure(
    device: DeviceName,
    limits: { wanted: Bandwidth; now: Bandwidth; mark: string },
  ): Promise<void> {
    const { wanted, now, mark } = limits
    if (wanted.transmitMbitPerSecond !== undefined) this.#ensureQueue(device, mark)
    const commands = tcBatch(device, wanted, now)
    if (commands.length > 0) await run(['tc', '-batch', '-'], { input: `${commands.join('\n')}\n` })
    if (wanted.transmitMbitPerSecond === undefined) await this.removeQueue(device, mark)
  }

  /** Removes the queue device of a tap that has no transmit limit, or is gone. */
  async removeQueue(device: DeviceName, mark: string): Promise<void> {
    const name = queueDevice(device)
    await deleteLink(name, () => {
      const link = this.#links.link(name)
      return link !== undefined && isOurs(link, mark)
    })
  }

  /**
   * Returns how many packets were dropped because of the limits. `toGuest` includes packets that the device did not
   * take.
   */
  drops({ name, index }: Link): { readonly toGuest: number; readonly fromGuest: number } {
    const queue = this.#links.link(queueDevice(name as DeviceName))
    return {
      toGuest: this.#links.rootQdisc(index)?.droppedPackets ?? 0,
      fromGuest: (queue === undefined ? undefined : this.#links.rootQdisc(queue.index))?.droppedPackets ?? 0,
    }
  }

  #rateOn({ index, qdisc: kind }: Link): number | undefined {
    // The kernel multicasts the next answer to all listeners, so it is requested only if needed.
    if (kind !== 'tbf') return undefined
    const qdisc = this.#links.rootQdisc(index)
    if (qdisc?.rate === undefined || qdisc.handle >>> 16 !== OUR_QDISC.major) return undefined
    return qdisc.rate / 1_000_000
  }

  #transmitRate(device: DeviceName, index: number): number | undefined {
    const filter = this.#links.ingressFilter(index, OUR_FILTER)
    if (filter === undefined) return undefined
    const queue = this.#links.link(queueDevice(device))
    if (queue === undefined || !queue.up || filter.redirectTo !== queue.index) return 0
    try {
      return this.#rateOn(queue)
    } catch (error) {
      if (hasErrno(error, 'ENODEV')) return 0
      throw error
    }
  }

  #ensureQueue(device: DeviceName, mark: string): void {
    const name = queueDevice(device)
    if (this.#links.link(name) === undefined) this.#links.add(name, 'ifb')
    const link = this.#links.link(name)
    if (link === undefined || !isOurs(link, mark)) {
      throw new HostFault(
        'tap_name_taken',
        `limiting the bandwidth of ${device}: ${name} is a device of someone else`,
      )
    }
    if (link.alias === undefined) this.#links.set(link.index, { alias: mark })
    // Only the guest's packets may be sent on the device, so IPv6 is disabled.
    applySettings(this.#links, link, [['ipv6/disable_ipv6', 1]])
    if (!link.up) this.#links.change(link.index, { kind: 'raise' })
  }
}

/**
 * Returns whether a queue device is ours. It is marked after it is made, and raised after that. So a crash in between
 * leaves it unmarked and down.
 */
const isOurs = ({ kind, alias, up }: Link, mark: string): boolean =>
  kind === 'ifb' && (alias === mark || (alias === undefined && !up))
