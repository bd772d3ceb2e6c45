import type { MacAddress, UserId } from '../ids.ts'

/**
 * Returns the MAC address of a guest whose controller named none: locally administered (02, IEEE 802), then the user
 * id, which is unique on the host. The link is point-to-point, so no wider uniqueness is needed.
 */
export function guestMac(userId: UserId): MacAddress {
  const id = userId.toString(16).padStart(8, '0')
  return `02:76:${id.match(/../g)?.join(':')}` as MacAddress
}
