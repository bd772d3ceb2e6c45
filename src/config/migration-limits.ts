/** Bounds of VMs that move between hosts; a part of `limits`. */
export const migrationLimits = {
  /** Offers that are not decided, of all VMs of this host. */
  offersMax: 100,
  /** From an offer until it expires: a disk of any allowed size is copied in a day. */
  offerMsMax: 24 * 3600 * 1000,
  /** Departures that are kept of VMs that were released and then deleted. */
  departedMax: 1000,
  /**
   * Time for which a guest is down, from the beginning of the handover to the release. It is shorter than
   * `heldFrameAgeMs` by the time of a slow wake. So a guest that its source takes back gets every packet that came
   * meanwhile, including the first one.
   */
  handoverMsMax: 45_000,
  /**
   * Time in which a destination takes over a guest, from its request for the handover until everything is here; longer
   * than its source keeps the guest down.
   */
  takeOverMsMax: 60_000,
  /** Time in which a connection to the source of a VM must be ready for a request; below `offerReadMs`, to say why. */
  sourceConnectMs: 5000,
  /** Time for which a source may send nothing: longer than its long polls, `handoverPollMs`. */
  sourceSilenceMs: 30_000,
  /** Time after which an answer that is not ready begins with white space; below `sourceSilenceMs`. */
  answerQuietMs: 10_000,
  /** Bytes of an answer of a source that is not a stream. Held packets and user data are the largest parts. */
  sourceAnswerBytesMax: 8 * 1024 * 1024,
  /**
   * Characters of a name or a version in a manifest: of a monitor, a processor or a feature. Those known have some 20.
   */
  manifestNameCharactersMax: 256,
  /** Features of a processor. A new x86 processor has some 150. */
  processorFeaturesMax: 4096,
  /** Attempts in a row to continue a stream that was cut, without a new frame; each pause is twice the one before. */
  streamAttemptsMax: 6,
  streamPauseMs: 100,
  /**
   * Time for which a destination may take nothing of a stream; then it is cut, and gives up its place and its round.
   */
  streamStallMs: 60_000,
  /**
   * Streams of one offer that its destination has open at once. It reads one at a time; those of lines that broke end
   * later, at the latest after `streamStallMs`.
   */
  streamsPerOfferMax: 8,
  /** Time for which packets for a VM that was released are kept for its destination. */
  departedFramesMs: 60_000,
  /** VMs whose disks are copied to other hosts at the same time, and the pause between requests that ends a copy. */
  departuresAtOnceMax: 2,
  departureIdleMs: 30_000,
  /** The longest answer to a request for the handover, which waits until the guest is down. */
  handoverPollMs: 20_000,
  /** Age of a packet from a source: far more than `heldFrameAgeMs`, after which a source drops it. */
  heldPacketAgeMsMax: 24 * 3600 * 1000,
  /**
   * Interval at which a guest that is handed over is looked at, beside each change of its VM; also between two tries,
   * and between two requests for the handover.
   */
  handoverLookMs: 1000,
  /**
   * Time for which the console of a guest that is down for the handover may keep its terminal, and between two looks at
   * it.
   */
  consoleDetachMsMax: 2000,
  consoleDetachLookMs: 50,
  /** Guests of VMs that were deleted here whose sources are asked again; more wait for the deadlines there. */
  giveBacksMax: 1000,
  /** Between two tries to remove the rounds, or the unfinished disk, of a VM that does not move any more. */
  roundsRetryMs: 60_000,
  /** Rounds in which a disk is copied while its guest lives. */
  roundsMax: 8,
  /** A round that took no longer is the last before the handover. */
  lastRoundMs: 1000,
  /** Bytes from which on the rate of a copy is known. */
  rateBytesMin: 16 * 1024 * 1024,
  /** VMs that come to this host at the same time; others wait for their turn. */
  arrivalsAtOnceMax: 2,
  /** Interval at which the progress of a copy is stored and shown. */
  copyProgressMs: 1000,
  /** Time for which a guest that was released waits for the packets that its source has held. */
  packetsTakeMs: 500,
  /** Time for which a request for packets waits at the source until one comes. */
  packetsWaitMs: 10_000,
  /** The shortest time between two such requests. */
  packetsEveryMs: 100,
  /** Time in which the source of a VM that is to be taken must describe it. */
  offerReadMs: 10_000,
  /** Attempts to load a guest here before it is left at its source. */
  loadAttemptsMax: 2,
  /** Between two tries to withdraw an offer that has expired. */
  offerRecheckMs: 10_000,
  /**
   * Bytes of one frame of a round. Both sides check and hash a frame in one turn of the event loop: about a
   * millisecond.
   */
  roundFrameBytesMax: 256 * 1024,
  /** Stretches of a round that are read with one call, and the bytes between two of them that are read for nothing. */
  roundGroupExtentsMax: 64,
  roundGapBytesMax: 32 * 1024,
  /**
   * Extents that the kernel reports in one call. They are compared in one turn of the event loop: a few milliseconds.
   */
  mapExtentsMax: 256,
  /**
   * Calls for maps that found no change from which on their stretch is kept, and the stretches that are kept of one
   * round.
   */
  quietPagesMin: 16,
  quietStretchesMax: 4096,
  /**
   * Between two states of the digest of a round that are kept, so that a stream continues without reading all again.
   */
  roundDigestEveryBytes: 16 * 1024 * 1024,
  /**
   * Bytes that are read and not sent again, of all rounds together and of all memory together: each a third of what one
   * processor reads and hashes.
   */
  roundSkippedBytesPerSecond: 512 * 1024 * 1024,
  /**
   * The largest count that one host sends to another, such as an offset in bytes. It is half of what a number of
   * JavaScript holds exactly, so that as much may be added to it.
   */
  movedCountMax: 2 ** 52,
  /** The states that are kept of one round. They must cover what connections may have under way. */
  roundDigestsMax: 16,
} as const
