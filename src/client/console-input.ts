import { limits } from '../config/limits.ts'
import type { Sleep } from './console-socket.ts'

/** Of a terminal, in characters. */
export type WindowSize = { readonly cols: number; readonly rows: number }

/** Where messages go; resolves with whether there is still such a place. */
type Send = (message: Uint8Array | object) => Promise<boolean>

/**
 * What a viewer has to say, kept while there is nobody to say it to. Small pieces that come faster than messages may are
 * sent as one. What was handed to a connection that broke is not sent again: a command must not run twice.
 */
export class ConsoleInput {
  readonly #sleep: Sleep
  #pieces: Uint8Array[] = []
  #bytes = 0
  #window: WindowSize | undefined
  #asksPosition = false
  #wake: () => void = () => {}
  #room = Promise.withResolvers<void>()

  constructor(sleep: Sleep) {
    this.#sleep = sleep
  }

  /** Whether more may come without waiting. */
  get hasRoom(): boolean {
    return this.#bytes <= limits.clientConsoleInputBytesMax
  }

  /** Resolves when there is room for more, which for a person is at once. */
  write(bytes: Uint8Array): Promise<void> {
    this.#pieces.push(bytes)
    this.#bytes += bytes.length
    this.#wake()
    return this.hasRoom ? Promise.resolve() : this.#room.promise
  }

  /** The newest size alone is told. */
  resize(window: WindowSize): void {
    this.#window = window
    this.#wake()
  }

  /** The size is told otherwise. */
  forgetResize(): void {
    this.#window = undefined
  }

  askPosition(): void {
    this.#asksPosition = true
    this.#wake()
  }

  /** What was typed for a session that is over is meant for no other. */
  drop(): void {
    this.#pieces = []
    this.#bytes = 0
    this.#tellRoom()
  }

  /** Sends until the signal is raised or `send` says that nobody is there. */
  async sendTo(send: Send, signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#wake(), { once: true })
    while (!signal.aborted) {
      const message = this.#take()
      if (message === undefined) {
        await new Promise<void>((resolve) => (this.#wake = resolve))
        continue
      }
      if (!(await send(message))) return
      await this.#sleep(limits.clientConsoleSendEveryMs, signal).catch(() => {})
    }
  }

  /** Hands over all bytes that wait: who leaves has typed them before. */
  flush(send: Send): void {
    while (this.#bytes > 0) void send(this.#takeBytes())
  }

  #take(): Uint8Array | object | undefined {
    if (this.#window !== undefined) {
      const { cols, rows } = this.#window
      this.#window = undefined
      return { resize: { cols, rows } }
    }
    if (this.#asksPosition) {
      this.#asksPosition = false
      return { position: {} }
    }
    return this.#bytes === 0 ? undefined : this.#takeBytes()
  }

  #takeBytes(): Uint8Array {
    const taken: Uint8Array[] = []
    let room = limits.consoleMessageBytesMax
    while (room > 0) {
      const piece = this.#pieces.shift()
      if (piece === undefined) break
      taken.push(piece.subarray(0, room))
      if (piece.length > room) this.#pieces.unshift(piece.subarray(room))
      room -= Math.min(room, piece.length)
    }
    const message = Buffer.concat(taken)
    this.#bytes -= message.length
    if (this.hasRoom) this.#tellRoom()
    return message
  }

  #tellRoom(): void {
    this.#room.resolve()
    this.#room = Promise.withResolvers()
  }
}
