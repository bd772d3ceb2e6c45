import { writeFileSync } from 'node:fs'
import { hasErrno } from '../ffi/errno-error.ts'
import type { TapSetting } from '../../core/network/tap-settings.ts'
import type { TapFacts, TapSettingName } from '../../core/world/network-state.ts'
import type { Link } from '../netlink/route-codec.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/** Where a link has each setting: one less than IPV4_DEVCONF_* of linux/ip.h, and DEVCONF_* of linux/ipv6.h. */
const PLACES: { readonly [Name in TapSettingName]: number } = {
  'ipv4/forwarding': 0,
  'ipv4/accept_redirects': 3,
  'ipv4/send_redirects': 5,
  'ipv4/rp_filter': 7,
  'ipv4/arp_filter': 12,
  'ipv4/arp_ignore': 18,
  'ipv4/ignore_routes_with_linkdown': 28,
  'ipv6/forwarding': 0,
  'ipv6/accept_ra': 3,
  'ipv6/accept_redirects': 4,
  'ipv6/autoconf': 5,
  'ipv6/disable_ipv6': 26,
  'ipv6/ignore_routes_with_linkdown': 39,
  'ipv6/addr_gen_mode': 47,
}

const NAMES = Object.keys(PLACES) as TapSettingName[]
const SETTING_BYTES = 4

const isOfIpv4 = (name: TapSettingName): boolean => name.startsWith('ipv4/')

/** Returns the settings of a link that its kernel reports. */
export function settingsOf({ ipv4Settings, ipv6Settings }: Link): TapFacts['settings'] {
  const found: Partial<Record<TapSettingName, number>> = {}
  for (const name of NAMES) {
    const all = isOfIpv4(name) ? ipv4Settings : ipv6Settings
    const at = PLACES[name] * SETTING_BYTES
    if (all !== undefined && at + SETTING_BYTES <= all.length) found[name] = all.readInt32LE(at)
  }
  return found
}

/**
 * Applies the settings of a link that differ: those of IPv4 in one request, and those of IPv6, which rtnetlink(7) only
 * reports, in their order, each by its file. A kernel without IPv6 has nothing to turn off. The kernel answers in
 * microseconds, so a thread would cost more than it saves.
 */
export function applySettings(links: Rtnetlink, link: Link, settings: readonly TapSetting[]): void {
  const now = settingsOf(link)
  const differing = settings.filter(([name, value]) => now[name] !== value)
  const ofIpv4 = differing.filter(([name]) => isOfIpv4(name))
  if (ofIpv4.length > 0)
    links.set(link.index, { ipv4Settings: ofIpv4.map(([name, value]) => [PLACES[name], value]) })
  for (const [name, value] of differing) {
    if (isOfIpv4(name)) continue
    try {
      writeFileSync(`/proc/sys/net/${name.replace('/', `/conf/${link.name}/`)}`, String(value))
    } catch (error) {
      if (!(name === 'ipv6/disable_ipv6' && value === 1 && hasErrno(error, 'ENOENT'))) throw error
    }
  }
}
