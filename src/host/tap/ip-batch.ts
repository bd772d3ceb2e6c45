import { hasNeighbour, staleNeighbours, staleRoutes, tapLayout } from '../../core/network/tap.ts'
import type { TapLayout, TapSpec } from '../../core/network/tap.ts'

/**
 * Returns the commands of `ip -batch` (ip(8)) that change a tap from its present state to the wanted one, removals
 * first. A route is added, and never replaced: an address that is routed elsewhere belongs to another owner, and the
 * kernel then returns EEXIST.
 */
export function ipBatch(spec: TapSpec, facts: TapLayout & { readonly up: boolean }): readonly string[] {
  const { device } = spec
  const layout = tapLayout(spec)
  return [
    ...staleRoutes(layout, facts).map((route) => `route del ${route} dev ${device}`),
    ...staleNeighbours(layout, facts).map(({ address }) => `neigh del ${address} dev ${device}`),
    ...facts.addresses
      .filter((address) => !layout.addresses.includes(address))
      .map((address) => `addr del ${address} dev ${device}`),
    ...layout.addresses
      .filter((address) => !facts.addresses.includes(address))
      // IPv6 would delay an address until a guest is there to object to it (RFC 4862, 5.4).
      .map(
        (address) => `addr add ${address} dev ${device} scope link${address.includes(':') ? ' nodad' : ''}`,
      ),
    ...(facts.up ? [] : [`link set dev ${device} up`]),
    ...layout.routes
      .filter((route) => !facts.routes.includes(route))
      .map((route) => `route add ${route} dev ${device}`),
    ...layout.neighbours
      .filter((neighbour) => !hasNeighbour(facts, neighbour))
      .map(
        ({ address, macAddress }) =>
          `neigh replace ${address} lladdr ${macAddress} dev ${device} nud permanent`,
      ),
  ]
}
