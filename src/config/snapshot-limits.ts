/** Bounds of snapshots, of their staging and of what is sent to stores; a part of `limits`. */
export const snapshotLimits = {
  /**
   * Snapshots. S3 takes parts of 5 MiB to 5 GiB, and 10,000 of them (Amazon S3 User Guide, "multipart upload limits").
   */
  partMibMin: 5,
  partMibMax: 5 * 1024,
  partsMax: 10_000,
  /** URLs of parts in one request: so many of up to 1 KiB fit into a body. */
  partUrlsMax: 1000,
  /** Numbers of parts without a URL that one answer holds. */
  lackingPartsShown: 100,
  /** All snapshots on record, including ended ones, until they are deleted. */
  snapshotsMax: 10_000,
  /** URLs of all snapshots as they are stored; some 500,000 of them. */
  snapshotUrlsBytesMax: 256 * 1024 * 1024,
  /** One frame of the image. A smaller one compresses worse; a larger one costs memory, and readers more per byte. */
  frameBytes: 4 * 1024 * 1024,
  /** Threads that compress, for all snapshots; at most one per core. Each snapshot has one more, for digests. */
  packThreadsMax: 4,
  /**
   * Bytes packed beyond the oldest part that is not taken yet; above it, packing waits. The quota of staging does not
   * count them until their part is made, so each open pack may have so many more.
   */
  packAheadBytes: 64 * 1024 * 1024,
  /** Snapshots that are packed at the same time; one that waits for room in staging has no place. */
  packsMax: 2,
  /**
   * Snapshots whose packing has begun at the same time, those that wait for room in staging included. Each has a
   * thread, open files, and what it has packed ahead.
   */
  openPacksMax: 8,
  /** The nice value of those threads: they use the CPU time that guests leave. */
  packNice: 19,
  /** Freezing flushes the guest's caches to its disk; a slower guest is captured as it is. Bounds a thaw too. */
  freezeMs: 5000,
  /** Between two attempts to thaw a guest that does not answer. */
  thawRetryMs: 1000,
  /** VMs whose passes wait for captures at the same time. They share the pool, and their guests are paused for it. */
  capturesMax: 4,
  /** A guest is paused for its capture for at most this long; a pool that is slower is tried again later. */
  capturePauseMs: 5000,
  /** A VM whose guest does not run takes no other change for at most this long. A disk in many pieces takes seconds. */
  captureAtRestMs: 30_000,
  /** Disks and clones flushed at once. Each uses one of Node's four threads for files, which captures need too. */
  captureFlushesMax: 2,
  /** Between two attempts to capture a disk whose VM is changing. */
  captureRetryMs: 1000,
  /** Parts of one snapshot sent at once; the configuration bounds those of all snapshots. */
  partsUnderWayMax: 4,
  /** Attempts to send one part, or the completion, before the snapshot fails; with back-off about ten minutes. */
  sendAttemptsMax: 16,
  /** The longest wait that a store may ask for. */
  retryAfterMsMax: 300_000,
  /**
   * A store has stalled if it says nothing for this long, or does not take the next `sendChunkBytes` completely. So a
   * part is sent at 2 KiB/s or faster.
   */
  sendStallMs: 30_000,
  /** If a store does not answer `Expect: 100-continue` within this time, the part is sent anyway (RFC 9110, 10.1.1). */
  sendContinueMs: 2000,
  /** One part, however slowly the store takes it; a large one has longer, by `sendPartBytesPerSecond`. */
  sendPartMs: 3_600_000,
  /** A part at this rate is in time: four at once over a line of 1 Mbit/s. 5 GiB have 46 hours. */
  sendPartBytesPerSecond: 32 * 1024,
  /** S3 may take minutes to complete an upload of many parts. */
  completeMs: 900_000,
  /** Answers of stores are short texts; anything longer is not read. */
  storeAnswerBytesMax: 64 * 1024,
  /** Idle connections kept for the next request to any one host, and for how long. */
  outboundIdleMax: 16,
  outboundIdleMs: 15_000,
  /**
   * Pieces in which the body of one answer may come, on average and at once, beside one for each so many of its bytes.
   * A server that sends pieces of this length or longer is never slowed; single bytes come at 8 KiB/s.
   */
  outboundPiecesPerSecond: 8192,
  outboundPiecesBurst: 8192,
  outboundPieceBytes: 1024,
  /** Informational answers (1xx) to one request. A server sends one or two; some send one every few seconds. */
  outboundInformationMax: 32,
  /** The bandwidth limit lets the bytes of this much time pass at once, so that timers need not be exact. */
  sendBurstMs: 50,
  /** How often a part that is being sent reports the bytes that went out. */
  sendReportMs: 250,
  /** Bytes sent between two looks at the bandwidth limit. */
  sendChunkBytes: 64 * 1024,
  /** How often a part that is being sent records activity, so that its snapshot does not look stale. */
  snapshotActivityMs: 10_000,
  /** A daemon must itself see a snapshot for this long without activity before it gives it up as stale. */
  stagingGraceMs: 2 * 3_600_000,
  /** Time between two searches for staging that is stale or has no snapshot. */
  stagingSweepMs: 600_000,
} as const
