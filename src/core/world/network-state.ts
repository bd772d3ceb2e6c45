import type { Bandwidth, InboundRule } from '../desired.ts'
import type { DeviceName, MacAddress } from '../ids.ts'

/** A device as the kernel shows it. */
export type TapState =
  | { readonly kind: 'absent' }
  /** A device of that name that is not a tap of this VM. */
  | { readonly kind: 'foreign'; readonly because: string }
  | { readonly kind: 'present'; readonly facts: TapFacts }

/** Addresses and routes as text in canonical form (inet_ntop(3)), with prefix length. */
export type TapFacts = {
  readonly up: boolean
  /**
   * Whether a monitor holds the device: the kernel shows a carrier only then (tun_chr_open and tun_detach of
   * drivers/net/tun.c).
   */
  readonly attached: boolean
  /** The rate limits in force, as read back; 0 if nothing gets through, because only a part of a limit is left. */
  readonly bandwidth: Bandwidth
  readonly addresses: readonly string[]
  readonly routes: readonly string[]
  /** Permanent neighbour entries only. */
  readonly neighbours: readonly { readonly address: string; readonly macAddress: string }[]
}

export type Neighbour = TapFacts['neighbours'][number]

/** The firewall's rule for one guest: which addresses may leave its device, and what may enter. */
export type GuestRule = {
  readonly device: DeviceName
  readonly macAddress: MacAddress
  readonly ipv4Address?: string
  readonly ipv6Address?: string
  /** Connections that others may open to the guest; absent: as the policy of the host says. */
  readonly inbound?: readonly InboundRule[]
}

export type FirewallState =
  /** The table is missing. `rule` comes back when the table is written again. */
  | { readonly kind: 'absent'; readonly rule?: GuestRule }
  /** Something else changed the table since this daemon wrote it. */
  | { readonly kind: 'altered' }
  /** This daemon has not written the table yet, so it cannot know whether the table is as it should be. */
  | { readonly kind: 'unverified' }
  | { readonly kind: 'intact'; readonly rule?: GuestRule }
