/** The part of `limits` that holds for the typed client and vmhostctl. Import it from `limits.ts`. */
export const clientLimits = {
  /** The client: from a request to its whole answer, on top of what the request itself asks to wait. */
  clientAnswerMs: 15_000,
  /** The client: one long poll of a VM that is waited for. */
  clientLongPollSeconds: 30,
  /** The client: between two looks where the daemon answers at once, or not at all. */
  clientPollMs: 500,
  /** The client: how long a console waits before it connects again; doubled each time up to the longest. */
  clientReconnectMsMin: 100,
  clientReconnectMsMax: 2000,
  /** The client: a console from which nothing came for so long, not even a ping, is a connection that is gone. */
  clientConsoleSilentMs: 50_000,
  /** The client: output that was received and not taken; past it the connection is not read. */
  clientConsoleOutputBytesMax: 256 * 1024,
  /** The client: input that waits for the connection; past it the writer is held back. */
  clientConsoleInputBytesMax: 1024 * 1024,
  /** The client: between two messages of one console, so that none of its users exceeds `consoleMessagesPerSecond`. */
  clientConsoleSendEveryMs: 2,
  /** The client: how much of the answer to a refused upgrade is read. */
  clientRefusalBytesMax: 64 * 1024,

  /** vmhostctl: a wait that is given no `--timeout`. The slowest part of a creation is fetching its images. */
  ctlWaitSecondsDefault: 900,
  /** vmhostctl: the same for a snapshot, which may be of a large disk over a slow line. */
  ctlSnapshotWaitSecondsDefault: 86_400,
  /** vmhostctl: URLs of one request; a body has at most 1 MiB, and what does not fit is handed over in further ones. */
  ctlUrlsBytesMax: 900 * 1024,
  /** vmhostctl: the rate of an upload is that of the last while. */
  ctlRateMs: 15_000,
  /** vmhostctl: a completion that takes longer is no help to the one who types. */
  ctlCompletionMs: 1500,
  /** vmhostctl: how often the line moves that shows a wait on a terminal. */
  ctlSpinnerMs: 100,
} as const
