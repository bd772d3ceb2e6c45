import { limits } from '../../config/limits.ts'
import type { WriteStream } from 'node:tty'
import type { WindowSize } from '../../client/console-input.ts'

/** What a console is shown on and typed at: a terminal, or files and pipes. */
export type Terminal = {
  /** Whether somebody types. */
  readonly isTyped: boolean
  /** Its size; undefined where nothing is shown on a terminal. */
  window(): WindowSize | undefined
  /** Returns what stops it. */
  onResize(listener: () => void): () => void
  /** Reads what comes in until the returned function is called. `onEnd` comes once at most. */
  listen(listeners: { onInput: (bytes: Uint8Array) => void; onEnd: () => void }): () => void
  /** Reads no more until `resume`. */
  pause(): void
  resume(): void
  /** Resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void>
  /**
   * Undoes what a program may have left set, without clearing what is shown; nothing where output goes to no terminal.
   */
  softReset(): void
  /**
   * Hands keys over as they are typed and shows bytes as they come, until the returned function is called. A signal or a
   * crash that ends the program ends that too, with a soft reset.
   */
  makeRaw(): Promise<() => void>
}

/** What a terminal is made of. */
export type TerminalParts = {
  readonly stdin: NodeJS.ReadStream & { readonly fd: number }
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  /** Node's raw mode goes on turning line feeds of the output into line ends; this makes it stop. */
  readonly stopProcessing: (fd: number) => Promise<void>
  readonly process: Pick<NodeJS.Process, 'once' | 'off' | 'kill' | 'pid'>
}

/**
 * Ends whatever sequence the output was cut in (CAN), then: attributes; the alternate screen (1047, for 1049 would move
 * the cursor); cursor keys, mouse and focus reports, bracketed paste; line wrap and a cursor; the keypad; DECSTR for the
 * rest (xterm's ctlseqs). Not every terminal knows DECSTR, so what matters most is not left to it.
 */
export const SOFT_RESET =
  '\x18\x1b[0m\x1b[?1047l\x1b[?1;9;1000;1002;1003;1004;1006;1015;2004l\x1b>\x1b[!p\x1b[?7;25h'

/** Those that end a program and that it can do something about. */
const ENDING_SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'] as const

export function openTerminal(parts: TerminalParts): Terminal {
  const { stdin, stdout, stderr } = parts
  const shown: WriteStream | undefined = [stdout, stderr].find(({ isTTY }) => isTTY)
  return {
    isTyped: stdin.isTTY,
    window: () => (shown === undefined ? undefined : windowOf(shown)),
    onResize(listener) {
      shown?.on('resize', listener)
      return () => shown?.off('resize', listener)
    },
    listen({ onInput, onEnd }) {
      let ended = false
      const end = (): void => {
        if (!ended) onEnd()
        ended = true
      }
      stdin.on('data', onInput).on('end', end)
      // Of a terminal that was hung up, reading fails.
      stdin.on('error', end)
      return () => void stdin.off('data', onInput).off('end', end).pause()
    },
    pause: () => void stdin.pause(),
    resume: () => void stdin.resume(),
    write: (bytes) => new Promise((resolve) => stdout.write(bytes, () => resolve())),
    softReset: () => softReset(stdout),
    makeRaw: () => makeRaw(parts),
  }
}

/** A terminal whose size nobody told has none. */
function windowOf({ columns, rows }: WriteStream): WindowSize | undefined {
  if (!(columns > 0 && rows > 0)) return undefined
  return {
    cols: Math.min(columns, limits.consoleColsMax),
    rows: Math.min(rows, limits.consoleRowsMax),
  }
}

function softReset(stdout: NodeJS.WriteStream): void {
  if (stdout.isTTY) stdout.write(SOFT_RESET)
}

async function makeRaw({ stdin, stdout, stopProcessing, process }: TerminalParts): Promise<() => void> {
  const stops: (() => void)[] = []
  const restore = (): void => {
    for (const stop of stops.splice(0)) stop()
  }
  const cutOff = (): void => {
    restore()
    // Node writes to a terminal at once (Node's documentation, "A note on process I/O").
    softReset(stdout)
  }
  process.once('exit', cutOff)
  stops.push(() => process.off('exit', cutOff))
  for (const signal of ENDING_SIGNALS) {
    const onSignal = (): void => {
      cutOff()
      process.kill(process.pid, signal)
    }
    process.once(signal, onSignal)
    stops.push(() => process.off(signal, onSignal))
  }
  stops.push(() => stdin.setRawMode(false))
  try {
    stdin.setRawMode(true)
    await stopProcessing(stdin.fd)
    return restore
  } catch (error) {
    restore()
    throw error
  }
}
