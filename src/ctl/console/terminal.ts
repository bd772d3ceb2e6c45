import { limits } from '../../config/limits.ts'
import type { WriteStream } from 'node:tty'
import type { WindowSize } from '../../core/console/console-viewer.ts'
import type { Terminal } from '../shell.ts'

/** The parts of the process that a terminal uses. */
export type TerminalParts = {
  readonly stdin: NodeJS.ReadStream & { readonly fd: number }
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  /** Stops the terminal from turning line feeds of the output into line ends, which Node's raw mode leaves on. */
  readonly stopProcessing: (fd: number) => Promise<void>
  readonly process: Pick<NodeJS.Process, 'once' | 'off' | 'kill' | 'pid'>
}

/**
 * Ends any unfinished escape sequence (CAN), then resets: attributes; the alternate screen (1047, because 1049 would
 * move the cursor); cursor keys, mouse and focus reports, bracketed paste; line wrap and a cursor; the keypad; DECSTR
 * for the rest (xterm's ctlseqs). Some terminals do not know DECSTR, so the most important modes are reset one by one.
 */
export const SOFT_RESET =
  '\x18\x1b[0m\x1b[?1047l\x1b[?1;9;1000;1002;1003;1004;1006;1015;2004l\x1b>\x1b[!p\x1b[?7;25h'

/** Signals that end a program and can be caught. */
const ENDING_SIGNALS = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM'] as const

export function openTerminal(parts: TerminalParts): Terminal {
  const { stdin, stdout, stderr } = parts
  const shown: WriteStream | undefined = [stdout, stderr].find(({ isTTY }) => isTTY)
  const isLendable = stdin.isTTY || stdout.isTTY
  // Typed input may be shown by another program, such as tee. A log without either is written in the background: what
  // runs at the terminal meanwhile keeps its settings.
  const softReset = (): void => {
    if (isLendable) shown?.write(SOFT_RESET)
  }
  return {
    isTyped: stdin.isTTY,
    isShown: stdout.isTTY,
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
      // Reading from a terminal that was hung up fails.
      stdin.on('error', end)
      return () => void stdin.off('data', onInput).off('end', end).pause()
    },
    pause: () => void stdin.pause(),
    resume: () => void stdin.resume(),
    write: (bytes) => new Promise((resolve) => stdout.write(bytes, () => resolve())),
    softReset,
    lend: async () => (isLendable ? await lend(parts, softReset) : () => {}),
  }
}

/** Returns undefined for a terminal that does not know its size. */
function windowOf({ columns, rows }: WriteStream): WindowSize | undefined {
  if (!(columns > 0 && rows > 0)) return undefined
  return {
    cols: Math.min(columns, limits.consoleColsMax),
    rows: Math.min(rows, limits.consoleRowsMax),
  }
}

async function lend(
  { stdin, stopProcessing, process }: TerminalParts,
  softReset: () => void,
): Promise<() => void> {
  const stops: (() => void)[] = []
  const restore = (): void => {
    for (const stop of stops.splice(0)) stop()
  }
  const cutOff = (): void => {
    restore()
    // Node writes to a terminal synchronously (Node's documentation, "A note on process I/O").
    softReset()
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
  if (!stdin.isTTY) return restore
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
