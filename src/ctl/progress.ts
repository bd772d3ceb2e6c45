import { limits } from '../config/limits.ts'
import { printable } from '../lib/printable.ts'
import { paintFor } from './text.ts'
import { showSpan } from './units.ts'
import type { Shell } from './shell.ts'

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'] as const
const CLEAR_LINE = '\r\u001B[K'

/**
 * Tells on standard error how a wait goes on: on a terminal one line that moves, elsewhere a line whenever something
 * changed.
 */
export class Progress {
  readonly #shell: Shell
  readonly #beganMs: number
  readonly #stop: () => void
  #status = ''
  #frame = 0

  constructor(shell: Shell) {
    this.#shell = shell
    this.#beganMs = shell.monotonicMs()
    this.#stop = shell.stderr.isTty ? shell.every(limits.ctlSpinnerMs, () => this.#draw()) : () => {}
  }

  /** What is so now. */
  status(text: string): void {
    if (text === this.#status) return
    this.#status = text
    if (this.#shell.stderr.isTty) this.#draw()
    else this.#shell.stderr.write(`${printable(text)}\n`)
  }

  /** What shall stay to be read. */
  note(text: string): void {
    const { stderr, environment } = this.#shell
    const line = paintFor(stderr, environment['NO_COLOR'])(printable(text), 'yellow')
    stderr.write(stderr.isTty ? `${CLEAR_LINE}${line}\n` : `${line}\n`)
  }

  /** Takes the moving line away. */
  end(): void {
    this.#stop()
    if (this.#shell.stderr.isTty) this.#shell.stderr.write(CLEAR_LINE)
  }

  #draw(): void {
    const { stderr, monotonicMs } = this.#shell
    this.#frame = (this.#frame + 1) % FRAMES.length
    const line = `${FRAMES[this.#frame]} ${printable(this.#status)}  ${showSpan(monotonicMs() - this.#beganMs)}`
    stderr.write(`${CLEAR_LINE}${line.slice(0, Math.max(stderr.columns - 1, 20))}`)
  }
}

/** Tells nothing: for programs. */
export const silentProgress = { status() {}, note() {}, end() {} } satisfies Pick<
  Progress,
  'status' | 'note' | 'end'
>
