import { limits } from '../../config/limits.ts'
import { closeReason, closes, isFinal } from '../../core/console/close.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import { daemonMessageToWire } from '../wire/console.ts'
import { shownText } from '../wire/shown-text.ts'
import { parseViewerMessage } from './viewer-message.ts'
import type { WebSocket } from 'ws'
import type { CloseCode } from '../../core/console/close.ts'
import type { DaemonMessage } from '../../core/console/console-message.ts'
import type { ConsoleViewer, ViewerListeners } from '../../core/console/console-viewer.ts'
import type { ViewerMessage } from './viewer-message.ts'

/** Time, as far as a socket needs it; the Clock port has it. */
export type SocketTime = {
  readonly monotonicMs: () => number
  readonly after: (ms: number, callback: () => void) => () => void
}

export type ConsoleSocketOptions = {
  readonly time: SocketTime
  /** Hears of a bug that a message met; the socket is closed with `internal`. */
  readonly onBug: (error: unknown) => void
}

/**
 * One viewer's WebSocket, with the framing and all the bounds of the console: the rate of its messages, what it may have
 * unread, whether it is alive. The server that made it bounds the size of messages and the time for a close.
 */
export class ConsoleSocket implements ConsoleViewer {
  readonly #socket: WebSocket
  readonly #options: ConsoleSocketOptions
  readonly #rate: TokenBucket
  #listeners: ViewerListeners | undefined
  #cancelTimer = (): void => {}
  /** Whether anything came since the last ping. */
  #alive = true
  /** Messages that were sent and have not left. */
  #unsent = 0
  #isHeldBack = false
  /** Whether one who is held back was read since, to see that it lives. */
  #isLookedAt = false
  /** Input that came by that. */
  readonly #held: Uint8Array[] = []
  #closedWith: CloseCode | undefined
  #sayClose = (): void => {}

  constructor(socket: WebSocket, options: ConsoleSocketOptions) {
    this.#socket = socket
    this.#options = options
    const { consoleMessagesPerSecond: perSecond, consoleMessagesBurst: burst } = limits
    this.#rate = new TokenBucket({ perSecond, burst, nowMs: options.time.monotonicMs() })
    socket.on('message', (data: Buffer, isBinary) => this.#take(() => this.#message(data, isBinary)))
    socket.on('ping', () => this.#take(() => {}))
    socket.on('pong', () => this.#take(() => {}))
    socket.on('close', () => this.#closed())
    this.#pingLater()
  }

  /** Begins to hear of what the viewer sends; call it once, in the turn in which the socket was made. */
  listen(listeners: ViewerListeners): void {
    this.#listeners = listeners
  }

  /** False from the beginning of its end on: what is sent then goes nowhere. */
  get isOpen(): boolean {
    return this.#closedWith === undefined && this.#socket.readyState === this.#socket.OPEN
  }

  /** Why it was closed from here; undefined where it was not, or where the protocol was broken. */
  get closedWith(): CloseCode | undefined {
    return this.#closedWith
  }

  /** On its way to the viewer, in bytes. */
  get unsentBytes(): number {
    return this.#socket.bufferedAmount
  }

  /** Sends terminal bytes. They are not copied: they must not change afterwards. Closes a viewer that is too far behind. */
  output(bytes: Uint8Array): void {
    this.#send(bytes, true)
  }

  tell(message: DaemonMessage): void {
    this.#send(JSON.stringify(daemonMessageToWire(message)), false)
  }

  /** Reads no further, until `resumeInput`; what was read already still comes. */
  pauseInput(): void {
    if (!this.isOpen) return
    this.#isHeldBack = true
    this.#socket.pause()
  }

  resumeInput(): void {
    if (!this.#isHeldBack) return
    this.#isHeldBack = false
    this.#isLookedAt = false
    // Not within this call: what was held may fill the room that all viewers are being told of.
    queueMicrotask(() => this.#guard(() => this.#catchUp()))
  }

  /**
   * Ends it with this reason; what was sent before still goes out. Cut off `limits.consoleCloseMs` after the close was
   * sent. That waits for what is on its way where nobody can ask for it again, but not for ever.
   */
  close(code: CloseCode, words?: string): void {
    if (!this.isOpen) {
      if (!isFinal(code)) this.#sayClose()
      return
    }
    this.#closedWith = code
    this.#cancelTimer()
    const shown = words === undefined ? undefined : shownText(words)
    this.#sayClose = () => this.#socket.close(closes[code].status, closeReason(code, shown))
    // The answer to a close must be read.
    this.#isHeldBack = false
    this.#socket.resume()
    if (this.#unsent === 0 || !isFinal(code)) this.#sayClose()
    else this.#cancelTimer = this.#options.time.after(limits.consoleLastOutputMs, () => this.#sayClose())
  }

  #send(data: string | Uint8Array, binary: boolean): void {
    if (!this.isOpen) return
    this.#unsent += 1
    this.#socket.send(data, { binary }, () => this.#sent())
    if (this.unsentBytes > limits.consoleViewerBehindBytesMax) this.close('viewer_behind')
  }

  /** Pings and pongs do not come by here: behind the last message there may be some, but few. */
  #sent(): void {
    this.#unsent -= 1
    if (this.isOpen) this.#listeners?.onSent?.()
    else if (this.#unsent === 0) this.#sayClose()
  }

  /** Every message and control frame of the viewer comes by here. */
  #take(handle: () => void): void {
    this.#alive = true
    if (!this.#rate.take(this.#options.time.monotonicMs())) {
      this.close('too_many_messages')
      return
    }
    // What was read before the end, but comes after it.
    if (!this.isOpen) return
    // It was only read to see that it lives.
    if (this.#isHeldBack) this.#socket.pause()
    this.#guard(handle)
  }

  #guard(handle: () => void): void {
    try {
      handle()
    } catch (error) {
      this.#options.onBug(error)
      this.close('internal')
    }
  }

  #message(data: Buffer, isBinary: boolean): void {
    if (!isBinary) this.#text(parseViewerMessage(data.toString()))
    else if (this.#isLookedAt || this.#held.length > 0) this.#held.push(data)
    else this.#listeners?.onInput(data)
  }

  #catchUp(): void {
    while (this.isOpen && !this.#isHeldBack) {
      const bytes = this.#held.shift()
      if (bytes === undefined) {
        this.#alive = true
        this.#socket.resume()
        return
      }
      this.#listeners?.onInput(bytes)
    }
  }

  #text(message: ViewerMessage): void {
    if (message.kind === 'error') this.tell(message)
    else if (message.kind === 'resize') this.#listeners?.onResize(message.size)
    else this.#listeners?.onPosition()
  }

  #pingLater(): void {
    this.#cancelTimer = this.#options.time.after(limits.consolePingMs, () => this.#ping())
  }

  #ping(): void {
    if (!this.#alive && !this.#socket.isPaused) {
      this.#socket.terminate()
      return
    }
    if (!this.#alive) this.#lookAt()
    this.#alive = false
    if (this.isOpen) this.#socket.ping()
    this.#pingLater()
  }

  /** The answers of one who is held back were not read: until the next ping they are, with the input before them. */
  #lookAt(): void {
    const heldBytes = this.#held.reduce((sum, { length }) => sum + length, 0)
    if (heldBytes > limits.consoleHeldInputBytesMax) return
    this.#isLookedAt = true
    this.#socket.resume()
  }

  #closed(): void {
    this.#cancelTimer()
    this.#listeners?.onClosed()
  }
}
