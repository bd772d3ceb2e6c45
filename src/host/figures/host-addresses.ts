import { readFileSync } from 'node:fs'
import { HostFault } from '../../core/errors.ts'
import { canonicalAddress } from '../../core/network/address.ts'
import { DEVICE_PREFIX } from '../../core/network/tap.ts'
import { AddressChanges } from '../netlink/address-changes.ts'
import { Rtnetlink } from '../netlink/rtnetlink.ts'

/**
 * The files with resolvers. The second belongs to systemd-resolved, which names itself in the first
 * (systemd-resolved.service(8)).
 */
const RESOLVER_FILES = ['/etc/resolv.conf', '/run/systemd/resolve/resolv.conf'] as const

/**
 * Reads the addresses that a guest must not have: the host's own, the broadcast addresses of its networks, the routers
 * of its routes, and its resolvers. It uses netlink, because Node lists only the host's own addresses, and those of a
 * link only while the link is up and has a carrier.
 */
export class HostAddresses {
  readonly #links = new Rtnetlink()
  readonly #changes = new AddressChanges()
  /** The addresses on links and in routes. They are kept until they change, because each tap has some. */
  #onLinks: ReadonlySet<string> | undefined
  readonly #resolverFiles: readonly string[]

  /** @param resolverFiles for tests */
  constructor(resolverFiles: readonly string[] = RESOLVER_FILES) {
    this.#resolverFiles = resolverFiles
  }

  /** Returns the addresses in canonical form. Throws HostFault `network_failed`. */
  async read(): Promise<ReadonlySet<string>> {
    try {
      if (this.#changes.take()) this.#onLinks = undefined
      this.#onLinks ??= new Set([...this.#links.allAddresses(), ...this.#routers()])
      return new Set([...this.#onLinks, ...this.#resolverFiles.flatMap(resolversIn)])
    } catch (cause) {
      throw new HostFault('network_failed', "listing the host's addresses", { cause })
    }
  }

  /** A prefix is routed by way of its guest, whose address the host does not rely on. */
  #routers(): readonly string[] {
    const taps = new Map<number, boolean>()
    const isTap = (index: number): boolean => {
      const known = taps.get(index) ?? this.#links.linkAt(index)?.name.startsWith(DEVICE_PREFIX) === true
      taps.set(index, known)
      return known
    }
    return this.#links
      .nextHops()
      .flatMap(({ link, addresses }) => (link !== undefined && isTap(link) ? [] : addresses))
  }

  close(): void {
    this.#changes.close()
    this.#links.close()
  }
}

/**
 * Returns the name servers in a file in the format of resolv.conf(5); none if the file cannot be read, as on a host
 * without one.
 */
function resolversIn(path: string): readonly string[] {
  return readOrEmpty(path)
    .split('\n')
    .flatMap((line) => {
      const [keyword, server = ''] = line.trim().split(/\s+/)
      if (keyword !== 'nameserver') return []
      return canonicalAddress(server.replace(/%.*$/, '')) ?? []
    })
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
