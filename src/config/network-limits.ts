/** Bounds of what the kernel is asked about networks, and of its queues; a part of `limits`. */
export const networkLimits = {
  /** The kernel answers within send(2); this only bounds the wait for a lost answer. */
  netlinkAnswerMs: 100,
  /** A dump is repeated when a change came during it; this many in a row mean a host in turmoil. */
  netlinkDumpAttempts: 8,
  /**
   * Questions about links without a change in between, after which the routes and neighbours of all links are read at
   * once. That takes about as long as so many questions, whatever their number.
   */
  linkLooksUnchanged: 16,
  /** Device changes that the kernel buffers for us: some thousand. If it overflows, the daemon looks at everything. */
  netlinkEventsBytes: 4 * 1024 * 1024,
  /**
   * Looks at everything because of it: at once, and then one in each such time. A guest that makes its monitor change
   * the tap could cause them without end.
   */
  lostChangesLookEveryMs: 10_000,
  /** Between two readings of our taps because such changes were lost; some milliseconds with 1,000 taps. */
  lostTapsReadEveryMs: 1000,
  /** Events read in one turn of the event loop; some milliseconds. */
  netlinkEventsPerTurn: 256,
  /** Rest before more are read. A guest that makes its monitor change the tap could cause them without end. */
  netlinkEventsRestMs: 20,
  /** Connections removed before other work may run; some microseconds each. */
  connectionsPerTurn: 256,
  /** Chains of the firewall table read before other work may run; some ten microseconds each. */
  nftChainsPerTurn: 64,
  /**
   * Text of a transaction that nft is given a millisecond for, beyond the time of any program. It reads some 600 bytes
   * in one, with the kernel's part: a guest with the most rules has 850 KB.
   */
  nftBytesPerMs: 100,
  /**
   * Next hops beyond this host that a guest may begin to use: for long, and at once. The kernel looks 3 s for a hop
   * that does not answer (3 requests, 1 s apart), and has 1,024 places for all guests of a family (gc_thresh3). So a
   * guest takes at most 160 of them at once, and 60 for long. Most guests have one hop, the router.
   */
  nextHopsPerSecond: 20,
  nextHopsAtOnce: 100,
  /** While the kernel looks for a hop, further packets to it take no other place. */
  nextHopLookupSeconds: 3,
  /**
   * Fragments of one guest that the host takes: some 24 Mbit/s of datagrams in two parts, such as those of a tunnel
   * whose packets are too large for the network. A guest without such a tunnel sends almost none. The kernel keeps 2.5
   * KB for one that waits for the rest of its datagram. With what networks.md advises, a guest takes 54 of 256 MiB.
   */
  fragmentsPerSecond: 2000,
  fragmentsAtOnce: 2000,
  /** Memory that the kernel keeps for a fragment of a full frame: 2,504 bytes were seen. */
  fragmentKeptBytes: 2560,
  /** Guests that one transaction adds without running nft: their keys must fit into a netlink attribute of 64 KiB. */
  firewallGuestsAtOnceMax: 512,

  /** Bandwidth limits: what may pass at once at full speed. So a tick of the slowest timer (100 Hz) costs no rate. */
  bandwidthBurstMs: 10,
  /** Some twenty full frames: a short answer need not wait, whatever the rate. */
  bandwidthBurstBytesMin: 32 * 1024,
  /** Frames above the rate wait this long at most, then are dropped: TCP slows down before its packets get old. */
  bandwidthQueueMs: 50,
  bandwidthQueueBytesMax: 4 * 1024 * 1024,
} as const
