import type { OutboundPolicy } from '../../src/core/outbound/outbound-policy.ts'

/** Refuses only what every host refuses. */
export const ANYWHERE: OutboundPolicy = {
  allowHttp: false,
  allowedHosts: [],
  allowedNetworks: [],
  guestRanges: [],
}
