import { readFileSync, writeFileSync } from 'node:fs'
import { hasErrno } from '../ffi/errno-error.ts'
import { hasNeighbour, staleNeighbours, staleRoutes, tapLayout } from '../../core/network/tap.ts'
import type { TapSpec, TapLayout } from '../../core/network/tap.ts'
import type { LinkChange } from '../netlink/link-change.ts'

/** A kernel setting of one device, with its path below /proc/sys/net (ip-sysctl in the kernel's documentation). */
export type Setting = { readonly path: string; readonly value: string }

/** Returns the settings of a tap, in order: IPv6 is turned on last, when nothing generates addresses any longer. */
export function tapSettings({ device, ipv6Address }: TapSpec): readonly Setting[] {
  const ipv4 = (name: string, value: string): Setting => ({ path: `ipv4/conf/${device}/${name}`, value })
  const ipv6 = (name: string, value: string): Setting => ({ path: `ipv6/conf/${device}/${name}`, value })
  const settings = [
    ipv4('forwarding', '1'),
    // A second check besides nftables. It also keeps the guest from filling the host's ARP table with invented
    // neighbours: the kernel does not learn from a request whose sender it would not route back to this device.
    ipv4('rp_filter', '1'),
    // Answers only for the gateway's address, and not for others of the host.
    ipv4('arp_ignore', '1'),
    ipv4('accept_redirects', '0'),
    ipv4('send_redirects', '0'),
  ]
  if (ipv6Address === undefined) return [...settings, ipv6('disable_ipv6', '1')]
  return [
    ...settings,
    ipv6('addr_gen_mode', '1'),
    ipv6('accept_ra', '0'),
    ipv6('autoconf', '0'),
    ipv6('accept_redirects', '0'),
    ipv6('forwarding', '1'),
    ipv6('disable_ipv6', '0'),
  ]
}

/**
 * Writes the settings that differ. A kernel without IPv6 has nothing to turn off. The kernel answers in microseconds,
 * so a thread would cost more than it saves.
 */
export function applySettings(settings: readonly Setting[]): void {
  for (const { path, value } of settings) {
    const file = `/proc/sys/net/${path}`
    try {
      if (readFileSync(file, 'utf8').trim() !== value) writeFileSync(file, value)
    } catch (error) {
      if (!(path.endsWith('/disable_ipv6') && value === '1' && hasErrno(error, 'ENOENT'))) throw error
    }
  }
}

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
