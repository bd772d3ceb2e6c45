import type { DeviceName, MacAddress } from '../vm/ids.ts'

/** What the firewall knows of one guest: which addresses may come out of its device. */
export type GuestRule = {
  readonly device: DeviceName
  readonly macAddress: MacAddress
  readonly ipv4Address?: string
  readonly ipv6Address?: string
}

export const sameGuestRule = (a: GuestRule, b: GuestRule): boolean =>
  a.device === b.device &&
  a.macAddress === b.macAddress &&
  a.ipv4Address === b.ipv4Address &&
  a.ipv6Address === b.ipv6Address
