import type { Bandwidth, InboundRule, OutboundRule } from '../desired.ts'
import type { DeviceName, MacAddress } from '../ids.ts'

/** A device as the kernel shows it. */
export type TapState =
  | { readonly kind: 'absent' }
  /** A device of that name that is not a tap of this VM. */
  | { readonly kind: 'foreign'; readonly because: string }
  | { readonly kind: 'present'; readonly facts: TapFacts }

/**
 * What a tap gets when it is made. A monitor can change it by its descriptor, for which the kernel asks no further
 * right (TUNSETOWNER, TUNSETGROUP and SIOCSIFHWADDR of drivers/net/tun.c).
 */
export type TapMaking = {
  /** The user that may attach to it; absent if any user may. */
  readonly owner?: number
  /** The group that a user must be in to attach to it. A tap that has one cannot be without one again. */
  readonly group?: number
  /** The hardware address of the host's side. */
  readonly macAddress: string
}

/**
 * Addresses and routes as text in canonical form (inet_ntop(3)), with prefix length. A route by way of a router has
 * that too: `2001:db8:1::/64 via 2001:db8::10`.
 */
export type TapFacts = TapMaking & {
  readonly up: boolean
  /** The name of the device that it is a member of, e.g. a bridge, which takes its packets. */
  readonly memberOf?: string
  /**
   * Whether a monitor holds the device: the kernel shows a carrier only then (tun_chr_open and tun_detach of
   * drivers/net/tun.c).
   */
  readonly attached: boolean
  /** The rate limits in force, as read back; 0 if nothing gets through, because only a part of a limit is left. */
  readonly bandwidth: Bandwidth
  /** The kernel settings of the device, as read back. */
  readonly settings: Readonly<Partial<Record<TapSettingName, number>>>
  readonly addresses: readonly string[]
  readonly routes: readonly string[]
  /** Permanent neighbour entries only. */
  readonly neighbours: readonly { readonly address: string; readonly macAddress: string }[]
}

/** A kernel setting of a device: its path below `net`, without the device (ip-sysctl in the kernel's documentation). */
export type TapSettingName = `ipv4/${Ipv4Setting}` | `ipv6/${Ipv6Setting}`
type Ipv4Setting =
  | 'forwarding'
  | 'accept_redirects'
  | 'send_redirects'
  | 'rp_filter'
  | 'arp_filter'
  | 'arp_ignore'
  | 'ignore_routes_with_linkdown'
type Ipv6Setting =
  | 'forwarding'
  | 'accept_ra'
  | 'accept_redirects'
  | 'autoconf'
  | 'disable_ipv6'
  | 'ignore_routes_with_linkdown'
  | 'addr_gen_mode'

export type Neighbour = TapFacts['neighbours'][number]

/** The firewall's rule for one guest: which addresses may leave its device, and what may enter. */
export type GuestRule = {
  readonly device: DeviceName
  readonly macAddress: MacAddress
  readonly ipv4Address?: string
  readonly ipv6Address?: string
  /** A network whose addresses may leave the device too. */
  readonly ipv6Prefix?: string
  /** Connections that others may open to the guest; absent: as the policy of the host says. */
  readonly inbound?: readonly InboundRule[]
  /** Rules for what the guest opens to others; what no rule is about is allowed. */
  readonly outbound?: readonly OutboundRule[]
}

export type FirewallState =
  /** The table is missing. `rule` comes back when the table is written again. */
  | { readonly kind: 'absent'; readonly rule?: GuestRule }
  /** Something else changed the table since this daemon wrote it. */
  | { readonly kind: 'altered' }
  /** This daemon has not written the table yet, so it cannot know whether the table is as it should be. */
  | { readonly kind: 'unverified' }
  | { readonly kind: 'intact'; readonly rule?: GuestRule }

/** The 5-tuple of a packet, as far as the packet has one. */
export type PacketFlow = {
  /** `tcp`, `udp`, `icmp`, `icmpv6`; another protocol of IP by its number (IANA, "Protocol Numbers"), such as `47`. */
  readonly protocol: string
  /** Canonical text, as inet_ntop(3) prints it. */
  readonly source: string
  readonly destination: string
  /** Ports of TCP and UDP. Absent in a later fragment, and in a packet that ends before them. */
  readonly sourcePort?: number
  readonly destinationPort?: number
}

/**
 * Describes the host-to-guest traffic that the program on a VM's tap has seen. Only unicast IPv4 and IPv6 counts,
 * without TCP RST, ICMP errors, and what the host is configured to ignore.
 */
export type TrafficState =
  /** The device does not exist, or our program is not on it: nothing is known of the guest's traffic. */
  | { readonly kind: 'unwatched' }
  | {
      readonly kind: 'watched'
      /** `flowing`: frames go to the device. `held`: frames are kept until the guest is back. */
      readonly frames: 'flowing' | 'held'
      /** All packets that ever counted. A reader compares two values to see whether any packet came in between. */
      readonly packets: number
      /**
       * Milliseconds since the last packet that counted, or since the last `restart` of the clock, whichever was later.
       */
      readonly idleMs: number
      /** Time of the last packet that counted; absent if there was none yet. */
      readonly lastTrafficAtMs?: number
      /** Number of frames held now. */
      readonly heldFrames: number
      /** Time of the first packet that counted since frames are held: from then on the guest is wanted. */
      readonly wantedSinceMs?: number
      /** That packet; absent if it does not wait any more, or its frame was not kept. */
      readonly wantedBy?: PacketFlow
    }

export type WatchedTraffic = Extract<TrafficState, { readonly kind: 'watched' }>

export const areHeld = (traffic: TrafficState): traffic is WatchedTraffic & { readonly frames: 'held' } =>
  traffic.kind === 'watched' && traffic.frames === 'held'

/** Counts what happened to the frames that were held. */
export type Delivery = { readonly delivered: number; readonly dropped: number }
