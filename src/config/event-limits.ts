/** Bounds of events and of those who read them; a part of `limits`. */
export const eventLimits = {
  /** Events that are kept, and for how long. The first of the two bounds that is reached removes the oldest. */
  eventsMax: 10_000,
  eventsAgeMsMax: 7 * 24 * 3_600_000,
  /**
   * The newest events, which are kept whatever their age: a clock that is ahead for a while must not remove all others.
   */
  eventsKeptMin: 1000,
  /**
   * Events that wait in memory while the records cannot be written. If there are more, the oldest half is dropped, and
   * readers are informed. Less than half of `revisionsReserved`.
   */
  unwrittenEventsMax: 10_000,
  /** Events between two removals of old ones, so that each costs little. As many more may be kept. */
  eventsPruneEvery: 256,
  /** Events read from the store at a time, and so in memory for one reader. */
  eventsBatch: 100,
  /** Streams of events that are read at the same time. */
  eventReadersMax: 64,
  /** Streams that clients with one name read at the same time. */
  eventReadersPerClientMax: 16,
  /** Streams that clients read at the same time that are not controllers; the rest is for these. */
  eventReadersOthersMax: 48,
  /** How long a reader may take nothing while there is something for it; then its connection is ended. */
  eventReaderStallMs: 30_000,
  /** How long the kernel of a reader may acknowledge nothing; then the reader is gone, and its connection is ended. */
  eventReaderGoneMs: 60_000,
  /** The longest silence of a stream: a comment is sent then. */
  eventHeartbeatMs: 15_000,
  /** After this long another refusal of the same kind for the same VM is an event again. */
  refusalEventEveryMs: 60_000,
} as const
