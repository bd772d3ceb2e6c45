import { HostFault } from '../../core/errors.ts'
import { DEVICE_PREFIX } from '../../core/network/tap.ts'
import { routeMetric } from './configure-tap.ts'
import { parseTapMark } from './tap-names.ts'
import type { VmId } from '../../core/ids.ts'
import type { HostRoute } from '../netlink/host-route.ts'
import type { Link } from '../netlink/route-codec.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/** A route of the host to what a tap routes to its guest, by another link than the tap. */
export type OtherRoute = Pick<HostRoute, 'leads'> & {
  /** Absent if the route has several links, or refuses packets. */
  readonly link?: Link
}

/**
 * Returns a route that stands in the way of a tap's. One that a routing daemon learned does not, if the tap's is
 * preferred: it may lead to the host that the guest comes from, and goes when that host has no guest any more. Throws
 * ErrnoError.
 */
export function routeInTheWay(links: Rtnetlink, route: string, tap: Link): OtherRoute | undefined {
  const network = destinationOf(route)
  // For a single address this asks for one route, however many the host has.
  const found = isAddress(network) ? [links.routeToHost(network)] : links.routesTo(network)
  return found
    .filter((one) => one !== undefined)
    .filter((one) => one.leads !== 'here' && !(one.isLearned && one.metric > routeMetric(network)))
    .flatMap((one) => otherRoute(links, one, tap) ?? [])[0]
}

/** Returns the route for which the kernel refused the tap's with EEXIST. Throws ErrnoError. */
export const refusingRoute = (links: Rtnetlink, route: string, tap: Link): OtherRoute | undefined =>
  links
    .routesTo(destinationOf(route))
    .filter(({ metric }) => metric === routeMetric(route))
    .flatMap((one) => otherRoute(links, one, tap) ?? [])[0]

function otherRoute(links: Rtnetlink, { link: index, leads }: HostRoute, tap: Link): OtherRoute | undefined {
  if (index === tap.index) return undefined
  const link = index === undefined ? undefined : links.linkAt(index)
  // A route goes with its link.
  if (index !== undefined && link === undefined) return undefined
  return link === undefined ? { leads } : { leads, link }
}

/** Returns the fault that names the other route, and says what to do about it. */
export function routedElsewhere(vmId: VmId, route: string, { leads, link }: OtherRoute): HostFault {
  const network = destinationOf(route)
  const what = isAddress(network) ? network.replace(/\/.*$/, '') : network
  const doing = `routing ${what} to the guest of VM ${vmId}`
  if (
    link !== undefined &&
    (link.name.startsWith(DEVICE_PREFIX) || parseTapMark(link.alias ?? '') !== undefined)
  )
    return new HostFault('network_failed', `${doing}: another VM still has it on ${link.name}`, {
      retry: 'soon',
    })
  const where = leads === 'nowhere' ? 'that refuses packets' : `by ${link?.name ?? 'several links'}`
  return new HostFault(
    'network_failed',
    `${doing}: this host has a route to it ${where}: ` +
      `remove that route, or give the VM another ${isAddress(network) ? 'address' : 'prefix'}`,
  )
}

/** Whether a network is a single address. */
const isAddress = (network: string): boolean => /\/(32|128)$/.test(network)

const destinationOf = (route: string): string => route.replace(/ via .*$/, '')
