import { existsSync, readFileSync } from 'node:fs'

const ROUTES = '/proc/net/ipv6_route'

/** RTF_ADDRCONF of linux/ipv6_route.h: the kernel learned this route from a router advertisement. */
const ADVERTISED = 0x4_0000

const ANYWHERE = /^0{32} 00 /

/**
 * Returns the devices with an IPv6 default route that the kernel learned from a router advertisement, with their switch
 * `accept_ra` (Documentation/networking/ip-sysctl.rst). Routes of systemd-networkd and NetworkManager do not count.
 */
export function advertisedRoutes(): readonly { readonly device: string; readonly acceptRa: number }[] {
  if (!existsSync(ROUTES)) return []
  return advertisedDevicesIn(readFileSync(ROUTES, 'utf8')).flatMap((device) => {
    const file = `/proc/sys/net/ipv6/conf/${device}/accept_ra`
    // The device may be gone by now, and its route with it.
    return existsSync(file) ? [{ device, acceptRa: Number.parseInt(readFileSync(file, 'utf8'), 10) }] : []
  })
}

/** Returns the devices of advertised default routes in a table as `/proc/net/ipv6_route` has it. */
export function advertisedDevicesIn(table: string): readonly string[] {
  const devices = table.split('\n').flatMap((line) => {
    const [flags = '', device = ''] = line.trimEnd().split(/\s+/).slice(-2)
    const isAdvertised = (Number.parseInt(flags, 16) & ADVERTISED) !== 0
    return ANYWHERE.test(line) && isAdvertised ? [device] : []
  })
  return [...new Set(devices)]
}
