import { errorChain } from '../log/error-chain.ts'
import { CtlError } from './ctl-error.ts'
import { exitStatus } from './exit-status.ts'
import { showSpan } from '../lib/shown-units.ts'
import { parseTimeoutMs } from './units.ts'
import { limits } from '../config/limits.ts'
import { printable } from '../lib/text.ts'
import { paintFor } from './text.ts'
import type { Sight, WatchOptions } from '../client/watch.ts'
import type { ApiClient } from '../client/api-client.ts'
import type { Context, Option, ProgressPlace } from './command.ts'
import type { Shell } from './shell.ts'

/** Options for the time a wait may take, and whether an error ends it. */
export const boundOptions = (
  defaultSeconds: number,
  other?: { readonly words: string; readonly seconds: number },
): readonly Option[] => [
  {
    name: 'timeout',
    value: 'TIME',
    help: `give up after this long, such as 90s or 10m; 0: look once (${spanOf(defaultSeconds)}${other === undefined ? '' : `; ${other.words}, ${spanOf(other.seconds)}`})`,
    check: parseTimeoutMs,
  },
  {
    name: 'fail-on-error',
    help: 'give up as soon as the daemon reports an error; without it the wait continues, because the daemon keeps trying',
  },
]

/** Returns the options of a command that waits only if it is asked to: `--wait`, and those that need it. */
export const waitOptions = (help: string, bounds: readonly Option[]): readonly Option[] => [
  { name: 'wait', help },
  ...bounds.map((option) => ({ ...option, needs: 'wait' })),
]

const spanOf = (seconds: number): string => showSpan(seconds * 1000)

/**
 * A line that must stay readable, printed if its news differs from the last about the same subject. Without a text it
 * only ends the old news.
 */
export type Note = { readonly about: string; readonly news: string; readonly text?: string }

/** A wait for a resource of the API. */
export type Wait<T> = {
  readonly id: string
  readonly watch: (client: ApiClient, id: string, options: WatchOptions) => AsyncGenerator<Sight<T>>
  readonly defaultSeconds: number
  /**
   * When the time began that several waits share, by the monotonic clock;
   * without it the time begins with the first answer.
   */
  readonly beganMs?: number | undefined
  /** Whether the daemon is known to have had the resource; otherwise a first look that finds nothing is an error. */
  readonly wasThere?: boolean
  /** Returns one line about the progress. */
  readonly words: (seen: T) => string
  readonly notes: (seen: T) => readonly Note[]
  /** Returns whether the goal is reached. Throws CtlError if it never will be, or if the user asked to give up. */
  readonly isOver: (seen: T) => boolean
  /** The goal that was not reached, as "is not as desired". */
  readonly missed: string
  /** The state when the time was up. */
  readonly standing: (seen: T) => Standing
  /** Advice for when the time is up. */
  readonly onwards: string
}

type Standing = {
  readonly words: string
  readonly advice: readonly string[]
  /** Advice in place of that of the wait, if more time alone does not help. */
  readonly onwards?: string | undefined
}

const TIMED_OUT = Symbol('timed out')

/**
 * Waits until the goal is reached; returns undefined if the resource is gone. Throws CtlError with status 3 after the
 * timeout, and what `isOver` throws.
 */
export async function waitFor<T>(context: Context, wait: Wait<T>): Promise<T | undefined> {
  const { shell, given, json } = context
  const timeoutMs = parseTimeoutMs(given.text('timeout') ?? String(wait.defaultSeconds), '--timeout')
  const progress = json ? silentProgress : (context.progress ?? new Progress(shell))
  const over = new AbortController()
  const { wasThere = false } = wait
  const options = { signal: over.signal, sleep: shell.sleep, monotonicMs: shell.monotonicMs, wasThere }
  const reported = new Map<string, string>()
  let last: T | undefined
  const forgetInterrupt = shell.onInterrupt(() => {
    progress.end()
    const { onwards = wait.onwards } = last === undefined ? {} : wait.standing(last)
    if (!json) shell.stderr.write(`vmhostctl: ${printable(onwards)}\n`)
  })
  try {
    for await (const sight of wait.watch(context.client(), wait.id, options)) {
      // The time begins with the first answer, because having no answer at all is another failure.
      if (last === undefined)
        void abortAfter(over, timeoutMs - spentMs(wait, shell), { shell, reason: TIMED_OUT })
      if (sight.kind === 'gone') return undefined
      if (sight.kind === 'silent') {
        progress.status(silenceWords(wait, sight))
        continue
      }
      last = sight.seen
      const isOver = wait.isOver(last)
      // The command itself reports the end.
      if (!isOver) progress.status(wait.words(last))
      for (const { about, news, text } of wait.notes(last)) {
        if (text !== undefined && reported.get(about) !== news) progress.note(`${wait.id}: ${text}`)
        reported.set(about, news)
      }
      if (isOver) return last
    }
    return undefined
  } catch (error) {
    if (error !== TIMED_OUT) throw error
    throw timedOut(wait, last, timeoutMs)
  } finally {
    forgetInterrupt()
    over.abort()
    progress.end()
  }
}

/** Returns how much of the time is over when the first answer comes. */
const spentMs = <T>({ beganMs }: Wait<T>, { monotonicMs }: Shell): number =>
  beganMs === undefined ? 0 : monotonicMs() - beganMs

/** Aborts with the reason after `ms`, unless it was aborted before. */
export async function abortAfter(
  over: AbortController,
  ms: number,
  { shell, reason }: { readonly shell: Shell; readonly reason?: unknown },
): Promise<void> {
  try {
    await shell.sleep(Math.max(0, ms), over.signal)
  } catch {
    // The wait ended before the bound.
    return
  }
  over.abort(reason)
}

const silenceWords = <T>({ id }: Wait<T>, { because }: Extract<Sight<T>, { kind: 'silent' }>): string =>
  `${id}: no answer, trying again: ${errorChain(because)}`

function timedOut<T>(wait: Wait<T>, last: T | undefined, timeoutMs: number): CtlError {
  const { words = '', advice = [], onwards = wait.onwards } = last === undefined ? {} : wait.standing(last)
  const where = words === '' ? '' : `; ${words}`
  return new CtlError(`${wait.id} ${wait.missed} after ${showSpan(timeoutMs)}${where}`, {
    code: 'wait_timed_out',
    status: exitStatus.timedOut,
    advice: [...advice, onwards],
  })
}

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'] as const
const CLEAR_LINE = '\r\u001B[K'

/** Shows on standard error how a wait goes on: one line that moves on a terminal, otherwise a line at each change. */
export class Progress implements ProgressPlace {
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
    this.clear()
    stderr.write(`${line}\n`)
  }

  /** Clears the moving line until it is drawn again, so that something else can be printed. */
  clear(): void {
    const { stderr } = this.#shell
    if (stderr.isTty) stderr.write(CLEAR_LINE)
  }

  /** Removes the moving line. */
  end(): void {
    this.#stop()
    this.clear()
  }

  #draw(): void {
    const { stderr, monotonicMs } = this.#shell
    this.#frame = (this.#frame + 1) % FRAMES.length
    const line = `${FRAMES[this.#frame]} ${printable(this.#status)}  ${showSpan(monotonicMs() - this.#beganMs)}`
    stderr.write(`${CLEAR_LINE}${line.slice(0, Math.max(stderr.columns - 1, 20))}`)
  }
}

/** Shows nothing: for programs. */
const silentProgress: ProgressPlace = { status() {}, note() {}, end() {} }
