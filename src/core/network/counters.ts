/** Of a tap since it was made, as the guest sees it: received is what came to the guest. */
export type LinkCounters = {
  readonly receivedBytes: number
  readonly receivedPackets: number
  readonly transmittedBytes: number
  readonly transmittedPackets: number
  /** Over the bandwidth limit, or the guest did not take them. */
  readonly receiveDroppedPackets: number
  /** Over the bandwidth limit. */
  readonly transmitDroppedPackets: number
}

/** Packets the firewall dropped, and why. */
export type GuestDrops = {
  /** From the guest, with an address that is not its own; link-local chatter is dropped and not counted. */
  readonly spoofedPackets: number
  /** To the guest, and not among what may be opened to it. */
  readonly inboundPackets: number
}
