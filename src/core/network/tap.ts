import { given } from '../../lib/given.ts'
import { settingsDrift } from './tap-settings.ts'
import type { GuestRule, Neighbour, TapFacts, TapMaking } from '../world/network-state.ts'
import type { Bandwidth, InboundRule, OutboundRule } from '../desired.ts'
import type { DeviceName, MacAddress, UserId, VmId } from '../ids.ts'

/** The host side of every tap: the guest's gateway (link-local, so all taps can have the same). */
export const GATEWAY_IPV4 = '169.254.0.1'
export const GATEWAY_IPV6 = 'fe80::1'
/**
 * The MAC address of the host side of every tap of every host. It is constant, because a guest keeps the hardware
 * address of its gateway for minutes, even after its tap was made again or it moved to another host. It is locally
 * administered and never a guest's: those end in a user id, and this is not one.
 */
export const GATEWAY_MAC = '02:76:ff:ff:ff:ff'

/** A VM's tap as it must be: point-to-point, routed, neighbours permanent (a sleeping guest answers no ARP). */
export type TapSpec = {
  readonly device: DeviceName
  readonly vmId: VmId
  readonly userId: UserId
  readonly guestMac: MacAddress
  readonly ipv4Address?: string
  readonly ipv6Address?: string
  /** A network behind the guest; needs the IPv6 address, by way of which it is routed. */
  readonly ipv6Prefix?: string
  readonly bandwidth?: Bandwidth
  /** For the firewall; the device itself does not use it. */
  readonly inbound?: readonly InboundRule[]
  /** Also for the firewall. */
  readonly outbound?: readonly OutboundRule[]
}

/** Settings that the host's device needs for one address of the guest. */
type Family = { readonly gateway: string; readonly route: string; readonly neighbour: Neighbour }

/** Addresses, routes and neighbours that must be on the device. */
export type TapLayout = Pick<TapFacts, 'addresses' | 'routes' | 'neighbours'>

export function tapLayout(spec: TapSpec): TapLayout {
  const families = familiesOf(spec)
  return {
    addresses: families.map(({ gateway }) => gateway),
    routes: [...families.map(({ route }) => route), ...prefixRoutes(spec)],
    neighbours: families.map(({ neighbour }) => neighbour),
  }
}

function familiesOf({ guestMac: macAddress, ipv4Address, ipv6Address }: TapSpec): readonly Family[] {
  const family = (guest: string | undefined, gateway: string, prefix: number): readonly Family[] =>
    guest === undefined
      ? []
      : [{ gateway, route: `${guest}/${prefix}`, neighbour: { address: guest, macAddress } }]
  return [...family(ipv4Address, `${GATEWAY_IPV4}/32`, 32), ...family(ipv6Address, `${GATEWAY_IPV6}/64`, 128)]
}

/**
 * Returns the route to the guest's prefix. Its router is the guest, whose neighbour entry is permanent: so no address
 * of the prefix needs neighbour discovery, which a sleeping guest would miss.
 */
const prefixRoutes = ({ ipv6Address, ipv6Prefix }: TapSpec): readonly string[] =>
  ipv6Address === undefined || ipv6Prefix === undefined ? [] : [`${ipv6Prefix} via ${ipv6Address}`]

/**
 * Returns routes to single hosts other than the guest, and by way of a guest, as a former address or prefix leaves
 * them. The kernel's own routes are wider, and lead to the link itself.
 */
export function staleRoutes(layout: TapLayout, facts: TapLayout): readonly string[] {
  return facts.routes.filter((route) => /\/(32|128)$| via /.test(route) && !layout.routes.includes(route))
}

export function staleNeighbours(layout: TapLayout, facts: TapLayout): readonly Neighbour[] {
  const wanted = new Set(layout.neighbours.map(({ address }) => address))
  return facts.neighbours.filter(({ address }) => !wanted.has(address))
}

export const hasNeighbour = (facts: TapLayout, { address, macAddress }: Neighbour): boolean =>
  facts.neighbours.some((entry) => entry.address === address && entry.macAddress === macAddress)

/** Returns how the tap differs, in words, in what only its making sets: then it must be made again. */
export const makingDrift = (
  { userId }: Pick<TapSpec, 'userId'>,
  { owner, group, macAddress }: TapMaking,
): readonly string[] => [
  ...(owner === userId
    ? []
    : [`it belongs to ${owner === undefined ? 'no user' : `user ${owner}`}, not ${userId}`]),
  ...(group === undefined ? [] : [`only group ${group} may attach to it`]),
  ...(macAddress === GATEWAY_MAC ? [] : [`hardware address is ${macAddress}, not ${GATEWAY_MAC}`]),
]

/** Returns how the tap differs from what it must be, in words; empty if it does not. */
export function tapDrift(spec: TapSpec, facts: TapFacts): readonly string[] {
  const drift = [...makingDrift(spec, facts), ...(facts.up ? [] : ['link is down'])]
  if (facts.memberOf !== undefined) drift.push(`it is a member of ${facts.memberOf}`)
  for (const { gateway, route, neighbour } of familiesOf(spec)) {
    if (!facts.addresses.includes(gateway)) drift.push(`no address ${gateway}`)
    if (!facts.routes.includes(route)) drift.push(`no route to ${neighbour.address}`)
    if (!hasNeighbour(facts, neighbour)) drift.push(`no permanent neighbour ${neighbour.address}`)
  }
  for (const route of prefixRoutes(spec)) {
    if (!facts.routes.includes(route)) drift.push(`no route to ${route}`)
  }
  const layout = tapLayout(spec)
  for (const route of staleRoutes(layout, facts))
    drift.push(`stale route to ${route.replace(/\/(32|128)$/, '')}`)
  for (const { address } of staleNeighbours(layout, facts)) drift.push(`stale neighbour ${address}`)
  return [
    ...drift,
    ...bandwidthDrift(spec.bandwidth ?? {}, facts.bandwidth),
    ...settingsDrift(spec, facts.settings),
  ]
}

function bandwidthDrift(wanted: Bandwidth, found: Bandwidth): readonly string[] {
  const drift = (direction: string, due: number | undefined, is: number | undefined): readonly string[] =>
    due === is ? [] : [`${direction} limit is ${rateWords(is)}, not ${rateWords(due)}`]
  return [
    ...drift('receive', wanted.receiveMbitPerSecond, found.receiveMbitPerSecond),
    ...drift('transmit', wanted.transmitMbitPerSecond, found.transmitMbitPerSecond),
  ]
}

const rateWords = (mbitPerSecond: number | undefined): string =>
  mbitPerSecond === undefined ? 'none' : `${mbitPerSecond} Mbit/s`

/** Returns the firewall's rule for the guest behind a tap. */
export const guestRuleOf = ({
  device,
  guestMac: macAddress,
  ipv4Address,
  ipv6Address,
  ipv6Prefix,
  inbound,
  outbound,
}: TapSpec): GuestRule => ({
  device,
  macAddress,
  ...given({ ipv4Address, ipv6Address, ipv6Prefix, inbound, outbound }),
})

/** The prefix of every tap of ours; no other device on the host may have it. */
export const DEVICE_PREFIX = 'vmt'

/** Returns the name of a VM's tap: at most 13 bytes of the 15 that a device name may have (IFNAMSIZ, netdevice(7)). */
export const deviceName = (userId: UserId): DeviceName => `${DEVICE_PREFIX}${userId}` as DeviceName

/** Returns the user id in a name, the exact inverse of {@link deviceName}; undefined for any other name. */
export function parseDeviceName(name: string): UserId | undefined {
  const match = /^vmt([1-9][0-9]{0,9})$/.exec(name)
  return match === null ? undefined : (Number(match[1]) as UserId)
}

/**
 * Returns the MAC address of a guest whose controller named none: locally administered (02, IEEE 802), then the user
 * id, which is unique on the host. The link is point-to-point, so no wider uniqueness is needed,
 * not even for a guest that comes with the address from another host.
 */
export function guestMac(userId: UserId): MacAddress {
  const id = userId.toString(16).padStart(8, '0')
  return `02:76:${id.match(/../g)?.join(':')}` as MacAddress
}
