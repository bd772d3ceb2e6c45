/** Bounds of the typed client, of vmhostctl and of the pages; a part of `limits`. */
export const clientLimits = {
  /** The client: from a request to its whole answer, in addition to the wait that the request itself asks for. */
  clientAnswerMs: 15_000,
  /** The client: bytes of an answer; far more than a host's VMs have. */
  clientAnswerBytesMax: 64 * 1024 * 1024,
  /** The client: one long poll while it waits for a VM. */
  clientLongPollSeconds: 30,
  /** The client: between two polls if the daemon answers at once, or not at all. */
  clientPollMs: 500,
  /** The client: how long a console waits before it connects again; doubled each time up to the longest. */
  clientReconnectMsMin: 100,
  clientReconnectMsMax: 2000,
  /** The client: a console that receives nothing for this long, not even a ping, has lost its connection. */
  clientConsoleSilentMs: 50_000,
  /** The client: output that was received but not consumed; above it, the connection is not read. */
  clientConsoleOutputBytesMax: 256 * 1024,
  /**
   * The client: the same of a shell in a browser, beyond that: the daemon was asked to wait,
   * and buffers are still sent.
   */
  clientConsoleOnItsWayBytesMax: 16 * 1024 * 1024,
  /** The client: input that waits for the connection; above it, the writer must wait. */
  clientConsoleInputBytesMax: 1024 * 1024,
  /** The client: between two messages of one console, so that none of its users exceeds `consoleMessagesPerSecond`. */
  clientConsoleSendEveryMs: 2,
  /** The client: a stream of events that sends nothing for this long, not even a comment, has lost its connection. */
  clientEventsSilentMs: 45_000,
  /** The client: characters of one message of a stream of events; far more than an event has. */
  clientEventCharactersMax: 1024 * 1024,
  /** The client: bytes of a refusal; more are not read. */
  clientRefusalBytesMax: 64 * 1024,

  /** vmhostctl: a wait without `--timeout`. The slowest part of a creation is fetching its images. */
  ctlWaitSecondsDefault: 900,
  /** vmhostctl: the same for a snapshot, which may be of a large disk over a slow line. */
  ctlSnapshotWaitSecondsDefault: 86_400,
  /** vmhostctl: the same for a VM that moves to another host with its disk. */
  ctlMigrateSecondsDefault: 86_400,
  /** vmhostctl: the same for a host whose guests come to rest. */
  ctlDrainSecondsDefault: 3600,
  /** vmhostctl: time that a destination has to say why it gave a VM up, after its source has heard of it. */
  ctlMigrationEndMs: 2000,
  /** vmhostctl: the longest `--timeout`. A timer of Node takes at most 2^31 - 1 ms, and fires at once for more. */
  ctlWaitDaysMax: 24,
  /** vmhostctl: columns of a terminal that does not know how many it has. */
  ctlColumnsDefault: 80,
  /**
   * vmhostctl: the longest time that an option takes. Behind far longer ones there is no date (RFC 3339 ends with
   * 9999).
   */
  ctlTimeDaysMax: 36_500,
  /** vmhostctl: from an offer until it expires, without `--expires`. */
  ctlOfferSecondsDefault: 4 * 3600,
  /** vmhostctl: names in one line about several objects. */
  ctlNamesMax: 10,
  /** vmhostctl: URLs of one request. A body has at most 1 MiB; more URLs are handed over in further requests. */
  ctlUrlsBytesMax: 900 * 1024,
  /** vmhostctl: the period over which the rate of an upload is measured. */
  ctlRateMs: 15_000,
  /** vmhostctl: a completion that takes longer does not help the person who types. */
  ctlCompletionMs: 1500,
  /**
   * vmhostctl: how long typed input waits for room before more of it is dropped,
   * because the keys that leave must be read.
   */
  ctlInputStuckMs: 1000,
  /** vmhostctl: how often the line that shows a wait on a terminal is redrawn. */
  ctlSpinnerMs: 100,

  /** The console page: how long it waits for the reason of a refusal. */
  consolePageAskMs: 10_000,
  /** Output that the page has not drawn; above it, the page stops reading, and later continues with the newest. */
  consolePageBehindBytesMax: 2 * 1024 * 1024,
  consolePageScrollbackLines: 10_000,
  /** Input that the browser holds for the connection; above it, the page gives it no more, and looks again so often. */
  consolePageUnsentBytesMax: 256 * 1024,
  consolePageUnsentLookMs: 50,
  /** While a window is resized, its size is sent once it stays unchanged for this long. */
  consolePageFitMs: 100,

  /**
   * The page of the host: between two looks without an event, and how long it waits before it opens a refused stream
   * again.
   */
  hostPageAskEveryMs: 15_000,
  /** Between two looks, however many events come. */
  hostPageRefreshMsMin: 500,
  /** From a request to its whole answer. */
  hostPageAnswerMs: 20_000,
} as const
