import type { ConsoleClose } from '../../core/console/close.ts'

/** An open WebSocket, of Node or of a browser. */
export type Link = {
  /** Resolves when there is room for more, with whether the message went out. */
  send(message: Uint8Array | string): Promise<boolean>
  /** Begins the closing handshake with status 1000; `onClosed` follows. */
  close(): void
  /** Cuts the connection; `onClosed` follows. */
  terminate(): void
  /** Stops and continues reading; undefined in a browser, which cannot stop. */
  readonly reading: { pause(): void; resume(): void } | undefined
}

export type LinkListeners = {
  readonly onBytes: (bytes: Uint8Array) => void
  readonly onText: (text: string) => void
  /** Called for each ping of the daemon; never in a browser, which hides them. */
  readonly onPing: () => void
  /** Called once, also if the link never opened. */
  readonly onClosed: (close: ConsoleClose) => void
}

/** Makes links to one daemon. */
export type Links = {
  /** The name of the daemon in messages. */
  readonly peer: string
  /** Whether links call `onPing`; otherwise silence is found by asking. */
  readonly hearPings: boolean
  /**
   * Connects and upgrades at this path. Messages may come before the promise resolves. Rejects with ApiProblem if the
   * daemon refused, UnexpectedAnswer if the answer is not vmhostd's, ConnectionFailed if none came, and the reason of
   * the signal when it is raised.
   */
  open(path: string, listeners: LinkListeners, signal: AbortSignal): Promise<Link>
}

/** The clock of the platform. */
export type LinkTime = {
  /** Resolves after so many milliseconds, or rejects when the signal is raised. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
  /** Milliseconds of a monotonic clock. */
  readonly monotonicMs: () => number
}
