import { sameInbound } from './inbound-rule.ts'
import type { InboundRule } from './inbound-rule.ts'
import type { DeviceName, MacAddress } from '../vm/ids.ts'

/** What the firewall knows of one guest: which addresses may come out of its device, and what may go in. */
export type GuestRule = {
  readonly device: DeviceName
  readonly macAddress: MacAddress
  readonly ipv4Address?: string
  readonly ipv6Address?: string
  /** What others may open to the guest; absent: as the policy of the host says. */
  readonly inbound?: readonly InboundRule[]
}

export const sameGuestRule = (a: GuestRule, b: GuestRule): boolean =>
  a === b ||
  (a.device === b.device &&
    a.macAddress === b.macAddress &&
    a.ipv4Address === b.ipv4Address &&
    a.ipv6Address === b.ipv6Address &&
    sameInbound(a.inbound, b.inbound))
