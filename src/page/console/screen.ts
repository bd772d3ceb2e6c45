import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import { limits } from '../../config/limits.ts'
import { textOfKey } from './keys.ts'
import type { Attachment, WindowSize } from '../../core/console/console-viewer.ts'
import type { ITheme } from '@xterm/xterm'
import type { Key } from './keys.ts'

type Listeners = {
  /** Returns what to send for typed text. */
  readonly typed: (text: string) => string
  readonly onInput: (bytes: Uint8Array<ArrayBuffer>) => void
  readonly onResize: (size: WindowSize) => void
}

/** Ends an unfinished escape sequence of a stream (CAN), and resets the attributes. */
const BREAK = '\x18\x1b[0m'
/**
 * Resets what a program may have left set, without clearing the screen: alternate screen (1047, because 1049 would move
 * the cursor), mouse reports, bracketed paste, application keys (xterm's ctlseqs), then DECSTR.
 */
const SOFT_RESET = `${BREAK}\x1b[?1047l\x1b[?9;1000;1002;1003;1004;1006;1015;2004l\x1b>\x1b[!p`

/** The terminal in the page. */
export class Screen {
  readonly #terminal: Terminal
  readonly #fit = new FitAddon()
  #taken = 0
  #drawn = 0
  /** Output up to this offset, in bytes of `#drawn`, is history; its questions to a terminal were answered long ago. */
  #historyEnd = 0
  #whenDrawn: (() => void)[] = []

  constructor(place: HTMLElement, { typed, onInput, onResize }: Listeners) {
    const dark = matchMedia('(prefers-color-scheme: dark)')
    const terminal = new Terminal({
      cursorBlink: false,
      disableStdin: true,
      fontFamily: 'ui-monospace, "DejaVu Sans Mono", "Liberation Mono", Menlo, Consolas, monospace',
      fontSize: 14,
      // At 1, some fonts lose their underscores.
      lineHeight: 1.15,
      // Guests choose colours for a dark terminal; text stays readable on a light one.
      minimumContrastRatio: 4.5,
      scrollback: limits.consolePageScrollbackLines,
      theme: themeFor(dark.matches),
      // A guest may make links to anywhere.
      linkHandler: { activate: () => {} },
    })
    this.#terminal = terminal
    dark.addEventListener('change', ({ matches }) => {
      terminal.options.theme = themeFor(matches)
    })
    const input = (bytes: Uint8Array<ArrayBuffer>): void => {
      if (this.#drawn >= this.#historyEnd) onInput(bytes)
    }
    terminal.onData((text) => input(new TextEncoder().encode(typed(text))))
    terminal.onBinary((text) => input(Uint8Array.from(text, (byte) => byte.charCodeAt(0))))
    terminal.loadAddon(this.#fit)
    terminal.open(place)
    this.#fitNow()
    terminal.onResize(onResize)
    this.#follow(place)
  }

  get size(): WindowSize {
    const { cols, rows } = this.#terminal
    return { cols, rows }
  }

  get waiting(): number {
    return this.#taken - this.#drawn
  }

  async drawn(): Promise<void> {
    if (this.waiting === 0) return
    await new Promise<void>((resolve) => this.#whenDrawn.push(resolve))
  }

  begin(session: Attachment | undefined, sameAsBefore: boolean): void {
    // The first session needs no separator.
    if (!sameAsBefore && this.#taken > 0) this.#note(SOFT_RESET, 'a new session')
    if (session === undefined) return
    if (session.lostBytes > 0) this.#note(BREAK, `${session.lostBytes} bytes of output are missing here`)
    if (!sameAsBefore) this.#historyEnd = this.#taken + session.replayBytes
    // Lost bytes of the history will not come, so the history ends earlier.
    else
      this.#historyEnd = Math.max(
        Math.min(this.#historyEnd, this.#taken),
        this.#historyEnd - session.lostBytes,
      )
  }

  output(bytes: Uint8Array): void {
    this.#taken += bytes.length
    this.#terminal.write(bytes, () => {
      this.#drawn += bytes.length
      if (this.waiting > 0) return
      const listeners = this.#whenDrawn
      this.#whenDrawn = []
      for (const listener of listeners) listener()
    })
  }

  /** Whether typed input is sent. */
  set typing(allowed: boolean) {
    this.#terminal.options.disableStdin = !allowed
  }

  /** Lets a screen reader follow, which costs time for each line. */
  set spoken(wanted: boolean) {
    this.#terminal.options.screenReaderMode = wanted
  }

  /**
   * Shift+F6 leaves the terminal, which takes all other keys. While nothing that is typed is sent, Tab leaves too, as
   * from any other part of a page.
   */
  set onLeave(leave: () => void) {
    this.#terminal.attachCustomKeyEventHandler(({ type, key, shiftKey }) => {
      if (key === 'Tab' && this.#terminal.options.disableStdin === true) return false
      if (key !== 'F6' || !shiftKey) return true
      if (type === 'keydown') leave()
      return false
    })
  }

  /** Sends a key, as if it were typed. */
  press(key: Key): void {
    this.#terminal.input(textOfKey(key, this.#terminal.modes.applicationCursorKeysMode))
  }

  focus(): void {
    this.#terminal.focus()
  }

  /** Prints a line of the page itself, between the guest's lines. */
  #note(before: string, words: string): void {
    this.#terminal.write(`${before}\r\n\x1b[7m ${words} \x1b[0m\r\n`)
  }

  #follow(place: HTMLElement): void {
    let resting: ReturnType<typeof setTimeout> | undefined
    new ResizeObserver(() => {
      clearTimeout(resting)
      resting = setTimeout(() => this.#fitNow(), limits.consolePageFitMs)
    }).observe(place)
  }

  #fitNow(): void {
    const proposed = this.#fit.proposeDimensions()
    if (proposed === undefined || Number.isNaN(proposed.cols) || Number.isNaN(proposed.rows)) return
    const cols = Math.min(proposed.cols, limits.consoleColsMax)
    const rows = Math.min(proposed.rows, limits.consoleRowsMax)
    if (cols !== this.#terminal.cols || rows !== this.#terminal.rows) this.#terminal.resize(cols, rows)
  }
}

const dark: ITheme = {
  background: '#14161a',
  foreground: '#e6e9ed',
  cursor: '#e6e9ed',
  cursorAccent: '#14161a',
  selectionBackground: '#3b5b8c',
}

const light: ITheme = {
  background: '#ffffff',
  foreground: '#1b1f24',
  cursor: '#1b1f24',
  cursorAccent: '#ffffff',
  selectionBackground: '#b6d3ff',
  black: '#1b1f24',
  red: '#c11525',
  green: '#1a7f37',
  yellow: '#8a5d00',
  blue: '#0a58ca',
  magenta: '#8431b8',
  cyan: '#0b7285',
  white: '#c9ced6',
  brightBlack: '#5c6570',
  brightRed: '#a30d1b',
  brightGreen: '#116329',
  brightYellow: '#6f4b00',
  brightBlue: '#0842a0',
  brightMagenta: '#6b1fa0',
  brightCyan: '#095c6b',
  brightWhite: '#ffffff',
}

/** Returns the terminal's colours, which match those of console.css. */
const themeFor = (isDark: boolean): ITheme => (isDark ? dark : light)
