import { readFileSync } from 'node:fs'
import { HostFault } from '../../core/errors.ts'
import { canonicalAddress } from '../../core/network/address.ts'
import { Rtnetlink } from '../netlink/rtnetlink.ts'

/** rtnetlink(7): a dump of addresses for link 0 is of all links. */
const EVERY_LINK = 0

/** Where resolvers stand: the second is of systemd-resolved, which names itself in the first (systemd-resolved.service(8)). */
const RESOLVER_FILES = ['/etc/resolv.conf', '/run/systemd/resolve/resolv.conf'] as const

/**
 * The addresses that the host has, or that it would lose sight of if a guest had them: its own, the broadcast addresses of
 * its networks, the routers of its routes, and its resolvers. Read by netlink: Node lists own addresses alone, and those of
 * a link only while it is up and has a carrier.
 */
export class HostAddresses {
  readonly #links = new Rtnetlink()
  readonly #resolverFiles: readonly string[]

  /** @param resolverFiles for tests */
  constructor(resolverFiles: readonly string[] = RESOLVER_FILES) {
    this.#resolverFiles = resolverFiles
  }

  /** Canonical texts. Throws HostFault `network_failed`. */
  async read(): Promise<ReadonlySet<string>> {
    try {
      const own = this.#links.addresses(EVERY_LINK).map((address) => address.replace(/\/.*$/, ''))
      const others = [...this.#links.broadcasts(EVERY_LINK), ...this.#links.nextHops()]
      return new Set([...own, ...others, ...this.#resolverFiles.flatMap(resolversIn)])
    } catch (cause) {
      throw new HostFault('network_failed', "listing the host's addresses", { cause })
    }
  }

  close(): void {
    this.#links.close()
  }
}

/** The name servers of a file as resolv.conf(5) describes it; none in one that cannot be read, as on a host without any. */
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
