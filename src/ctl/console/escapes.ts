import { TerminalAnswer } from './terminal-answer.ts'

/** The meaning of typed input: bytes for the guest, or a command for this program. */
export type Typed =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'help' }
  | { readonly kind: 'leave' }

const ESCAPE = 0x7e // ~
const LEAVE = 0x2e // .
const HELP = 0x3f // ?
const NEWLINES = [0x0a, 0x0d]

/**
 * Finds the escapes of ssh(1) ("ESCAPE CHARACTERS") in typed input. An escape begins with a tilde at the start of a
 * line; that tilde is held back until the next key. An answer that the terminal sends by itself does not count as a
 * key.
 */
export class Escapes {
  #atLineStart = true
  #pending = false
  #left = false
  readonly #answer = new TerminalAnswer()
  /**
   * The bytes of a sequence after a pending tilde. If it turns out to be a key, the tilde goes to the guest before it.
   */
  #held: number[] = []
  #bytes: number[] = []
  #typed: Typed[] = []

  /** Takes input in pieces of any size. Drops what follows a `leave`. */
  read(input: Uint8Array): readonly Typed[] {
    for (const byte of input) {
      if (!this.#left) this.#read(byte)
    }
    this.#flush()
    const typed = this.#typed
    this.#typed = []
    return typed
  }

  #read(byte: number): void {
    if (this.#answer.isOpen || (this.#atLineStart && TerminalAnswer.begins(byte))) this.#readSequence(byte)
    else if (this.#pending) this.#readAfterTilde(byte)
    else if (this.#atLineStart && byte === ESCAPE) this.#pending = true
    else this.#pass([byte])
  }

  #readAfterTilde(byte: number): void {
    this.#pending = false
    if (byte === LEAVE || byte === HELP) {
      this.#flush()
      this.#left = byte === LEAVE
      this.#typed.push({ kind: this.#left ? 'leave' : 'help' })
    } else {
      this.#pass(byte === ESCAPE ? [byte] : [ESCAPE, byte])
    }
  }

  /** Reads one byte of a sequence at the start of a line: an answer of the terminal, or a key such as an arrow. */
  #readSequence(byte: number): void {
    const verdict = this.#answer.take(byte)
    if (!this.#pending) {
      this.#bytes.push(byte)
      if (verdict === 'key') this.#atLineStart = NEWLINES.includes(byte)
      return
    }
    this.#held.push(byte)
    if (verdict === 'open') return
    const sequence = this.#held
    this.#held = []
    if (verdict === 'answer') {
      this.#bytes.push(...sequence)
      return
    }
    this.#pending = false
    this.#pass([ESCAPE, ...sequence])
  }

  /** Passes bytes to the guest; the last of them decides whether a line starts. */
  #pass(bytes: readonly number[]): void {
    this.#bytes.push(...bytes)
    this.#atLineStart = NEWLINES.includes(bytes.at(-1) ?? 0)
  }

  #flush(): void {
    if (this.#bytes.length > 0) this.#typed.push({ kind: 'bytes', bytes: Uint8Array.from(this.#bytes) })
    this.#bytes = []
  }
}
