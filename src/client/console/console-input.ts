import { limits } from '../../config/limits.ts'
import type { WindowSize } from '../../core/console/console-viewer.ts'
import type { LinkTime } from './link.ts'

/** Sends a message; resolves with whether the connection still exists. */
type Send = (message: Uint8Array | object) => Promise<boolean>

/**
 * Keeps a viewer's input and requests while there is no connection. Small pieces that come faster than messages may are
 * sent as one. Anything that was given to a connection that broke is not sent again: a command must not run twice.
 */
export class ConsoleInput {
  readonly #sleep: LinkTime['sleep']
  #pieces: Uint8Array[] = []
  #bytes = 0
  #window: WindowSize | undefined
  #asksPosition = false
  #wake: () => void = () => {}
  #room = Promise.withResolvers<void>()

  constructor(sleep: LinkTime['sleep']) {
    this.#sleep = sleep
  }

  /** Whether more may come without waiting. */
  get hasRoom(): boolean {
    return this.#bytes <= limits.clientConsoleInputBytesMax
  }

  /** Resolves when there is room for more; for a typing person that is at once. */
  write(bytes: Uint8Array): Promise<void> {
    this.#pieces.push(bytes)
    this.#bytes += bytes.length
    this.#wake()
    return this.hasRoom ? Promise.resolve() : this.#room.promise
  }

  /** Sends only the newest size. */
  resize(window: WindowSize): void {
    this.#window = window
    this.#wake()
  }

  /** Drops the size, because the request for a connection carries it. */
  forgetResize(): void {
    this.#window = undefined
  }

  askPosition(): void {
    this.#asksPosition = true
    this.#wake()
  }

  /** Drops input that was typed for a session that is over: it must not reach another. */
  drop(): void {
    this.#pieces = []
    this.#bytes = 0
    this.#reportRoom()
  }

  /** Sends until the signal is raised or `send` finds the connection gone. */
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

  /** Sends all waiting bytes: they were typed before the viewer left. */
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
    const message = new Uint8Array(Math.min(this.#bytes, limits.consoleMessageBytesMax))
    let at = 0
    while (at < message.length) {
      const piece = this.#pieces.shift()
      if (piece === undefined) break
      const taken = piece.subarray(0, message.length - at)
      message.set(taken, at)
      at += taken.length
      if (piece.length > taken.length) this.#pieces.unshift(piece.subarray(taken.length))
    }
    this.#bytes -= message.length
    if (this.hasRoom) this.#reportRoom()
    return message
  }

  #reportRoom(): void {
    this.#room.resolve()
    this.#room = Promise.withResolvers()
  }
}
