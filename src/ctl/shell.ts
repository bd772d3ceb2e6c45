import type { WindowSize } from '../core/console/console-viewer.ts'

/** A place for output. */
export type Sink = {
  write(text: string): void
  readonly isTty: boolean
  /** Width of the terminal; meaningless if this is not one. */
  readonly columns: number
}

/** Input and output of a console: a terminal, or files and pipes. */
export type Terminal = {
  /** Whether input comes from a terminal. */
  readonly isTyped: boolean
  /** Whether output goes to a terminal, which answers the questions in it. */
  readonly isShown: boolean
  /** Returns the terminal's size; undefined if the output is not a terminal. */
  window(): WindowSize | undefined
  /** Returns a function that removes the listener. */
  onResize(listener: () => void): () => void
  /** Reads input until the returned function is called. `onEnd` is called at most once. */
  listen(listeners: { onInput: (bytes: Uint8Array) => void; onEnd: () => void }): () => void
  /** Stops reading until `resume`. */
  pause(): void
  resume(): void
  /** Resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void>
  /**
   * Resets modes that a program may have left set, without clearing the screen. Does nothing if neither input nor
   * output is a terminal.
   */
  softReset(): void
  /**
   * Lends the terminal to a guest until the returned function is called: typed keys are passed on and bytes are shown
   * as they come. A signal or a crash that ends the program also ends this, with a soft reset.
   */
  lend(): Promise<() => void>
}

/** The parts of its process that the program uses. */
export type Shell = {
  readonly stdout: Sink
  readonly stderr: Sink
  readonly readStdin: () => Promise<string>
  /** Opens standard input and output, byte for byte. */
  readonly openTerminal: () => Terminal
  /** Makes the program end with success as soon as its standard output has lost its reader. */
  readonly endWithReader: () => void
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly home: string
  readonly nowMs: () => number
  readonly monotonicMs: () => number
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
  /** Calls `tick` at an interval until the returned function is called. */
  readonly every: (ms: number, tick: () => void) => () => void
  /** Calls `notify` before an interrupt (Ctrl-C) ends the program, until the returned function is called. */
  readonly onInterrupt: (notify: () => void) => () => void
  readonly build: { readonly version: string; readonly commit: string }
}
