import { limits } from '../config/limits.ts'
import { printable } from '../lib/text.ts'
import { paintFor } from './text.ts'
import { showSpan } from './units.ts'
import type { Shell } from './shell.ts'

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'] as const
const CLEAR_LINE = '\r\u001B[K'

/** Shows on standard error how a wait goes on: one line that moves on a terminal, otherwise a line at each change. */
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

  /** Shows the present state. */
  status(text: string): void {
    if (text === this.#status) return
    this.#status = text
    if (this.#shell.stderr.isTty) this.#draw()
    else this.#shell.stderr.write(`${printable(text)}\n`)
  }

  /** Prints a line that must stay readable. */
  note(text: string): void {
    const { stderr, environment } = this.#shell
    const line = paintFor(stderr, environment['NO_COLOR'])(printable(text), 'yellow')
    stderr.write(stderr.isTty ? `${CLEAR_LINE}${line}\n` : `${line}\n`)
  }

  /** Removes the moving line. */
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

/** Shows nothing: for programs. */
export const silentProgress = { status() {}, note() {}, end() {} } satisfies Pick<
  Progress,
  'status' | 'note' | 'end'
>
