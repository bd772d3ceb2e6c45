import type { OutboundPolicy } from '../../src/core/object-store/outbound-policy.ts'

/** Refuses what every host refuses, and no more. */
export const ANYWHERE: OutboundPolicy = {
  allowHttp: false,
  allowedHosts: [],
  allowedNetworks: [],
  guestRanges: [],
}
