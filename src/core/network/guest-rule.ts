import { sameInbound } from './inbound-rule.ts'
import type { InboundRule } from './inbound-rule.ts'
import type { DeviceName, MacAddress } from '../vm/ids.ts'

/** The firewall's rule for one guest: which addresses may leave its device, and what may enter. */
export type GuestRule = {
  readonly device: DeviceName
  readonly macAddress: MacAddress
  readonly ipv4Address?: string
  readonly ipv6Address?: string
  /** Connections that others may open to the guest; absent: as the policy of the host says. */
  readonly inbound?: readonly InboundRule[]
}

export const sameGuestRule = (a: GuestRule, b: GuestRule): boolean =>
  a === b ||
  (a.device === b.device &&
    a.macAddress === b.macAddress &&
    a.ipv4Address === b.ipv4Address &&
    a.ipv6Address === b.ipv6Address &&
    sameInbound(a.inbound, b.inbound))
