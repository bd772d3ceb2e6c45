import type { Terminal } from '../../../src/ctl/shell.ts'

/** A terminal in memory, at which a test types. */
export class FakeTerminal implements Terminal {
  isTyped: boolean
  isShown: boolean
  size: { cols: number; rows: number } | undefined
  isRaw = false
  isPaused = false
  /** Offsets in the shown text at which the terminal was reset. */
  readonly resets: number[] = []
  /** Holds each write back until it is resolved. */
  stalled: Promise<void> | undefined
  readonly #shown: Uint8Array[] = []
  #input: ((bytes: Uint8Array) => void) | undefined
  #end: (() => void) | undefined
  #resized: (() => void) | undefined

  constructor(isTyped = true) {
    this.isTyped = isTyped
    this.isShown = isTyped
    this.size = isTyped ? { cols: 80, rows: 24 } : undefined
  }

  /** Whether a reader listens for typed input. */
  get isHeard(): boolean {
    return this.#input !== undefined
  }

  shown(): string {
    return Buffer.concat(this.#shown).toString()
  }

  type(text: string): void {
    this.#input?.(Buffer.from(text))
  }

  end(): void {
    this.#end?.()
  }

  /** Ends the console that is attached through this terminal, whether it is typed at or a pipe. */
  hangUp(): void {
    this.isTyped = true
    this.end()
  }

  resizeTo(cols: number, rows: number): void {
    this.size = { cols, rows }
    this.#resized?.()
  }

  window(): { cols: number; rows: number } | undefined {
    return this.size
  }

  onResize(listener: () => void): () => void {
    this.#resized = listener
    return () => (this.#resized = undefined)
  }

  listen({ onInput, onEnd }: Parameters<Terminal['listen']>[0]): () => void {
    this.#input = onInput
    this.#end = onEnd
    return () => {
      this.#input = undefined
      this.#end = undefined
    }
  }

  pause(): void {
    this.isPaused = true
  }

  resume(): void {
    this.isPaused = false
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#shown.push(bytes)
    await this.stalled
  }

  softReset(): void {
    this.resets.push(this.shown().length)
  }

  async lend(): Promise<() => void> {
    this.isRaw = this.isTyped
    return () => (this.isRaw = false)
  }
}
