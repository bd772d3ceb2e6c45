import { hasNeighbour, staleNeighbours, staleRoutes, tapLayout } from '../../core/network/tap.ts'
import type { TapSpec, TapLayout } from '../../core/network/tap.ts'
import type { LinkChange } from '../netlink/link-change.ts'

/**
 * Returns the changes that bring a tap from its present state to the wanted one, removals first. A route is added, and
 * never replaced: the kernel returns EEXIST for one to the same network with the same metric.
 */
export function tapChanges(
  spec: TapSpec,
  facts: TapLayout & { readonly up: boolean },
): readonly LinkChange[] {
  const layout = tapLayout(spec)
  return [
    ...staleRoutes(layout, facts).map((route) => ({ kind: 'remove-route', route }) as const),
    ...staleNeighbours(layout, facts).map(({ address }) => ({ kind: 'remove-neighbour', address }) as const),
    ...facts.addresses
      .filter((address) => !layout.addresses.includes(address))
      .map((address) => ({ kind: 'remove-address', address }) as const),
    ...layout.addresses
      .filter((address) => !facts.addresses.includes(address))
      .map((address) => ({ kind: 'add-address', address }) as const),
    ...(facts.up ? [] : [{ kind: 'raise' } as const]),
    ...layout.routes
      .filter((route) => !facts.routes.includes(route))
      .map((route) => ({ kind: 'add-route', route, metric: routeMetric(route) }) as const),
    ...layout.neighbours
      .filter((neighbour) => !hasNeighbour(facts, neighbour))
      .map((neighbour) => ({ kind: 'set-neighbour', ...neighbour }) as const),
  ]
}

/**
 * Returns the lowest metric that a route can have. So no other route to a guest is preferred, as one of a routing
 * daemon would be to a metric of IPv6 that the kernel gives by default, 1024.
 */
export const routeMetric = (route: string): number => (route.includes(':') ? 1 : 0)
