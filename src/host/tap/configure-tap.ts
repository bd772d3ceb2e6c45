import { hasNeighbour, staleNeighbours, staleRoutes, tapLayout } from '../../core/network/tap.ts'
import type { TapSpec, TapLayout } from '../../core/network/tap.ts'
import type { LinkChange } from '../netlink/link-change.ts'

/**
 * Returns the changes that bring a tap from its present state to the wanted one, removals first. A route is added, and
 * never replaced: an address that is routed elsewhere belongs to another owner, and the kernel then returns EEXIST.
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
      .map((route) => ({ kind: 'add-route', route }) as const),
    ...layout.neighbours
      .filter((neighbour) => !hasNeighbour(facts, neighbour))
      .map((neighbour) => ({ kind: 'set-neighbour', ...neighbour }) as const),
  ]
}
