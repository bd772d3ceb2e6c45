import type { Terminal } from './console/terminal.ts'

/** Where output goes. */
export type Sink = {
  write(text: string): void
  readonly isTty: boolean
  /** Of the terminal; meaningless elsewhere. */
  readonly columns: number
}

/** What the program needs of the process it runs in. */
export type Shell = {
  readonly stdout: Sink
  readonly stderr: Sink
  readonly readStdin: () => Promise<string>
  /** Standard input and output, byte for byte. */
  readonly openTerminal: () => Terminal
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly home: string
  readonly nowMs: () => number
  readonly monotonicMs: () => number
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
  /** Calls `tick` again and again until the returned function is called. */
  readonly every: (ms: number, tick: () => void) => () => void
  /** Calls `tell` before an interrupt (Ctrl-C) ends the program, until the returned function is called. */
  readonly onInterrupt: (tell: () => void) => () => void
  readonly build: { readonly version: string; readonly commit: string }
}
