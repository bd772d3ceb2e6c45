/** Bounds of VMs that move between hosts; a part of `limits`. */
export const migrationLimits = {
  /** Offers that are not decided, of all VMs of this host. */
  offersMax: 100,
  /** From an offer until it expires: a disk of any allowed size is copied in a day. */
  offerMsMax: 24 * 3600 * 1000,
  /** Time for which a guest stands still for its destination. */
  handoverMsMax: 60_000,
  /** Interval at which deadlines are compared with the clock, which may have been set. */
  offerRecheckMs: 10_000,
} as const
