import type { Terminal } from './console/terminal.ts'

/** A place for output. */
export type Sink = {
  write(text: string): void
  readonly isTty: boolean
  /** Width of the terminal; meaningless if this is not one. */
  readonly columns: number
}

/** The parts of its process that the program uses. */
export type Shell = {
  readonly stdout: Sink
  readonly stderr: Sink
  readonly readStdin: () => Promise<string>
  /** Opens standard input and output, byte for byte. */
  readonly openTerminal: () => Terminal
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly home: string
  readonly nowMs: () => number
  readonly monotonicMs: () => number
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
  /** Calls `tick` at an interval until the returned function is called. */
  readonly every: (ms: number, tick: () => void) => () => void
  /** Calls `tell` before an interrupt (Ctrl-C) ends the program, until the returned function is called. */
  readonly onInterrupt: (tell: () => void) => () => void
  readonly build: { readonly version: string; readonly commit: string }
}
