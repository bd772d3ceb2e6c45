/** Counters of a tap since it was made, as the guest sees it: received is what came to the guest. */
export type LinkCounters = {
  readonly receivedBytes: number
  readonly receivedPackets: number
  readonly transmittedBytes: number
  readonly transmittedPackets: number
  /** Packets above the bandwidth limit, or that the guest did not take. */
  readonly receiveDroppedPackets: number
  /** Those of them above the bandwidth limit. They begin at 0 again when the limit is removed or set again. */
  readonly receiveLimitedPackets: number
  /** Packets above the bandwidth limit. */
  readonly transmitDroppedPackets: number
}

/** Packets that the firewall dropped, by reason. */
export type GuestDrops = {
  /** From the guest, with an address that is not its own. Link-local chatter is dropped and not counted. */
  readonly spoofedPackets: number
  /** To the guest, and not allowed by its inbound rules. */
  readonly inboundPackets: number
}

/** Counters of a VM's disk since its monitor started. */
export type DiskCounters = {
  readonly readBytes: number
  readonly readOperations: number
  readonly writtenBytes: number
  readonly writeOperations: number
}

/** Figures that count from a moment on, in milliseconds since the epoch. When it changes, they began at 0 again. */
type Since<T> = T & { readonly sinceMs: number }

/** Counters of one VM; a member is absent if there is nothing to count: no network, no running guest. */
export type VmCounters = {
  readonly atMs: number
  /** CPU time of the monitor with its guest, rounded down. */
  readonly cpu?: Since<{ readonly usedMs: number }>
  readonly network?: Since<LinkCounters & GuestDrops>
  readonly disk?: Since<DiskCounters>
  readonly wakes?: Since<{ readonly count: number }>
  /** Starts that followed an end of the guest by itself. */
  readonly restarts?: Since<{ readonly count: number }>
}
