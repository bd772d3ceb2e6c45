import { HostFault } from '../../core/errors.ts'
import { Rtnetlink } from '../netlink/rtnetlink.ts'

/** rtnetlink(7): a dump of addresses for link 0 is of all links. */
const EVERY_LINK = 0

/** The host's own addresses. Read by netlink: Node lists those alone whose link is up and has a carrier. */
export class HostAddresses {
  readonly #links = new Rtnetlink()

  /** Canonical texts. Throws HostFault `network_failed`. */
  async read(): Promise<ReadonlySet<string>> {
    try {
      return new Set(this.#links.addresses(EVERY_LINK).map((address) => address.replace(/\/.*$/, '')))
    } catch (cause) {
      throw new HostFault('network_failed', "listing the host's addresses", { cause })
    }
  }

  close(): void {
    this.#links.close()
  }
}
