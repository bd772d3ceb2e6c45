import type { TapFacts, TapSettingName } from '../world/network-state.ts'

/** A setting and its value. */
export type TapSetting = readonly [name: TapSettingName, value: number]

const IPV4: readonly TapSetting[] = [
  ['ipv4/forwarding', 1],
  // A second check besides nftables. The kernel uses the larger one of this and `all`, and systemd-sysctl may write
  // this one again when udev sees the device: with 2, the check passes what is routed to any device.
  ['ipv4/rp_filter', 1],
  // Keeps the guest from filling the host's ARP table with invented neighbours. The kernel learns from a request for
  // an address of its own only if it routes the sender to this device. `all` can turn this on, but not off.
  ['ipv4/arp_filter', 1],
  // Answers only for the gateway's address, and not for others of the host.
  ['ipv4/arp_ignore', 1],
  ['ipv4/accept_redirects', 0],
  ['ipv4/send_redirects', 0],
  // The tap of a sleeping guest has no carrier. With 1, the kernel would skip its route, and nothing would wake it.
  // `all` can turn this on for IPv4, but not off.
  ['ipv4/ignore_routes_with_linkdown', 0],
]

const IPV6: readonly TapSetting[] = [
  ['ipv6/addr_gen_mode', 1],
  ['ipv6/accept_ra', 0],
  ['ipv6/autoconf', 0],
  ['ipv6/accept_redirects', 0],
  ['ipv6/forwarding', 1],
  ['ipv6/ignore_routes_with_linkdown', 0],
  ['ipv6/disable_ipv6', 0],
]

const WITHOUT_IPV6: readonly TapSetting[] = [['ipv6/disable_ipv6', 1]]

/** The part of a `TapSpec` that decides. */
type Addressed = { readonly ipv6Address?: string }

/** Returns the settings of a tap, in order: IPv6 is turned on last, when nothing generates addresses any longer. */
export const tapSettings = ({ ipv6Address }: Addressed): readonly TapSetting[] => [
  ...IPV4,
  ...(ipv6Address === undefined ? WITHOUT_IPV6 : IPV6),
]

/**
 * Returns how the settings differ from what they must be, in words. A kernel without IPv6 reports none of its settings.
 */
export const settingsDrift = (spec: Addressed, found: TapFacts['settings']): readonly string[] =>
  tapSettings(spec).flatMap(([name, value]) => {
    const is = found[name]
    return is === undefined || is === value ? [] : [`${name} is ${is}, not ${value}`]
  })
