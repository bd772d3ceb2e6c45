import { unreachable } from '../../lib/assert.ts'

const ESCAPE_BYTE = 0x1b
const BELL = 0x07
const INTRODUCER = { csi: 0x5b, osc: 0x5d, dcs: 0x50 } as const // [ ] P
const TERMINATOR = 0x5c // \ after an escape byte

/** Final bytes of reports: the cursor's place, attributes, status, modes, the window (ECMA-48; xterm's ctlseqs). */
const REPORTS = new Set(Buffer.from('Rcnyt'))
/** Final bytes of the reports that the window has gained or lost the keyboard; these have no parameters. */
const FOCUS = new Set(Buffer.from('IO'))
const NEWLINES = [0x0a, 0x0d]

/**
 * Follows one escape sequence of the input from its first byte. Decides whether it is a key or an answer of the
 * terminal to a question of the guest. A shell may ask at each prompt for the cursor's place; the answer is then the
 * first input of a line at which no key was pressed yet.
 */
export class TerminalAnswer {
  #state: 'none' | 'begun' | 'csi' | 'parameters' | 'string' | 'string-ends' = 'none'

  /** Whether a sequence has begun and not ended. */
  get isOpen(): boolean {
    return this.#state !== 'none'
  }

  /** Returns whether a byte begins a sequence. */
  static begins(byte: number): boolean {
    return byte === ESCAPE_BYTE
  }

  /** Takes the next byte: the sequence stays open, or was an answer, or was a key. */
  take(byte: number): 'open' | 'answer' | 'key' {
    const verdict = this.#step(byte)
    if (verdict === 'answer' || verdict === 'key') {
      this.#state = 'none'
      return verdict
    }
    this.#state = verdict
    return 'open'
  }

  #step(byte: number): 'begun' | 'csi' | 'parameters' | 'string' | 'string-ends' | 'answer' | 'key' {
    if (NEWLINES.includes(byte)) return 'key'
    switch (this.#state) {
      case 'none':
        return 'begun'
      case 'begun':
        if (byte === INTRODUCER.csi) return 'csi'
        return byte === INTRODUCER.osc || byte === INTRODUCER.dcs ? 'string' : 'key'
      case 'csi':
      case 'parameters':
        if (this.#state === 'csi' && FOCUS.has(byte)) return 'answer'
        // Parameters and intermediates (ECMA-48, 5.4).
        if (byte >= 0x20 && byte <= 0x3f) return 'parameters'
        return REPORTS.has(byte) ? 'answer' : 'key'
      case 'string':
        if (byte === BELL) return 'answer'
        return byte === ESCAPE_BYTE ? 'string-ends' : 'string'
      case 'string-ends':
        return byte === TERMINATOR ? 'answer' : 'key'
      default:
        return unreachable(this.#state)
    }
  }
}

/**
 * Questions of a guest to a terminal (ECMA-48; xterm's ctlseqs): ENQ, its attributes (also DECID and DECREQTPARM),
 * status and the cursor's place, its version, modes, window and keyboard; OSC with a question mark; DCS for
 * capabilities and settings.
 */
const QUESTIONS = new RegExp(
  [
    String.raw`\x05`,
    String.raw`\x1bZ`,
    String.raw`\x1b\[[0-?]*[cnx]`,
    String.raw`\x1b\[>[0-?]*q`,
    String.raw`\x1b\[[0-?]*\$p`,
    String.raw`\x1b\[(?:1[1-9]|2[01])(?:;[0-9;]*)?t`,
    String.raw`\x1b\[\?u`,
    String.raw`\x1b\][^\x07\x1b]*\?(?:\x07|\x1b\\)`,
    String.raw`\x1bP[+$]q[^\x1b]*\x1b\\`,
  ].join('|'),
  'g',
)

/**
 * Removes questions from history before it is shown. They were answered long ago: a second answer of the terminal would
 * become input of the program that reads there now.
 */
export const withoutQuestions = (history: Uint8Array): Uint8Array =>
  Buffer.from(Buffer.from(history).toString('latin1').replaceAll(QUESTIONS, ''), 'latin1')
