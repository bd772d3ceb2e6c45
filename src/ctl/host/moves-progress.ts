import { printable } from '../../lib/text.ts'
import { Progress } from '../wait.ts'
import type { ProgressPlace } from '../command.ts'
import type { Shell } from '../shell.ts'

/** Shows how several moves go on: on a terminal in one line, otherwise with a line at each change of one. */
export class MovesProgress {
  readonly #shell: Shell
  #total: number
  readonly #json: boolean
  readonly #line: Progress | undefined
  /** The last words about each VM that moves now. */
  readonly #now = new Map<string, string>()
  #moved = 0

  constructor(shell: Shell, { total, json }: { readonly total: number; readonly json: boolean }) {
    this.#shell = shell
    this.#total = total
    this.#json = json
    this.#line = json ? undefined : new Progress(shell)
  }

  /** Returns the part about one VM. */
  of(id: string): ProgressPlace {
    return {
      status: (text) => this.#status(id, text),
      note: (text) => this.#line?.note(text),
      end: () => {},
    }
  }

  /** Shows that a VM lives at its destination. */
  moved(id: string, words: string): void {
    this.#moved += 1
    this.#now.delete(id)
    this.#line?.clear()
    if (!this.#json) this.#shell.stderr.write(`${printable(words)} (${this.#moved} of ${this.#total})\n`)
    this.#show()
  }

  /** Makes room for the report about a VM that does not move. One that need not move any more has `words` instead. */
  stays(id: string, words?: string): void {
    this.#now.delete(id)
    this.#line?.clear()
    if (words === undefined) return
    this.#total -= 1
    if (!this.#json) this.#shell.stderr.write(`${printable(`${id}: ${words}`)}\n`)
    this.#show()
  }

  warn(line: string): void {
    this.#line?.note(`warning: ${line}`)
  }

  interrupted(): void {
    this.#line?.end()
    if (!this.#json) this.#shell.stderr.write(`vmhostctl: ${MOVES_GO_ON}\n`)
  }

  end(): void {
    this.#line?.end()
  }

  #status(id: string, text: string): void {
    if (this.#now.get(id) === text) return
    this.#now.set(id, text)
    if (this.#shell.stderr.isTty) this.#show()
    else this.#line?.status(text)
  }

  #show(): void {
    if (!this.#shell.stderr.isTty) return
    const now = [...this.#now.values()].join('; ')
    this.#line?.status(`${this.#moved} of ${this.#total} moved${now === '' ? '' : `; ${now}`}`)
  }
}

const MOVES_GO_ON =
  'moves that have begun continue, and no other begins; run the command again to continue, or vmhostctl vm migrate NAME --cancel to keep a guest here'
