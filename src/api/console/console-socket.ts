import { limits } from '../../config/limits.ts'
import { ByteQueue } from '../../core/console/byte-queue.ts'
import { closeReason, closes, losesOutput } from '../../core/console/close.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'
import { daemonMessageToWire } from '../wire/console.ts'
import { shownText } from '../wire/values.ts'
import { parseViewerMessage } from './viewer-message.ts'
import type { WebSocket } from 'ws'
import type { CloseCode } from '../../core/console/close.ts'
import type { DaemonMessage, ConsoleViewer, ViewerListeners } from '../../core/console/console-viewer.ts'
import type { ViewerMessage } from './viewer-message.ts'

/** Time, as far as a socket needs it; the Clock port provides it. */
export type SocketTime = {
  readonly monotonicMs: () => number
  readonly after: (ms: number, callback: () => void) => () => void
}

export type ConsoleSocketOptions = {
  readonly time: SocketTime
  /** Receives an internal error that a message caused; the socket is closed with `internal`. */
  readonly onBug: (error: unknown) => void
}

/**
 * One viewer's WebSocket, with the framing and all the bounds of the console: the rate of its messages, its unread
 * output, and its pings. The server that made the socket bounds the size of a message and the time that a close takes.
 */
export class ConsoleSocket implements ConsoleViewer {
  readonly #socket: WebSocket
  readonly #options: ConsoleSocketOptions
  readonly #rate: TokenBucket
  #listeners: ViewerListeners | undefined
  #cancelTimer = (): void => {}
  /** Whether anything came from the viewer since the last ping. */
  #alive = true
  /** Number of messages that were handed to the library and are not written yet. */
  #unsent = 0
  #isHeldBack = false
  /** Whether a viewer whose input is paused is read until the next ping, to see whether it is alive. */
  #isLookedAt = false
  /** Input that was read in such a period. Messages are not kept: even an empty one takes memory. */
  readonly #held = new ByteQueue()
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

  /** Sets the listeners for what the viewer sends. Call it once, in the turn in which the socket was made. */
  listen(listeners: ViewerListeners): void {
    this.#listeners = listeners
  }

  /** Turns false when the close begins; anything sent after that is dropped. */
  get isOpen(): boolean {
    return this.#closedWith === undefined && this.#socket.readyState === this.#socket.OPEN
  }

  /** The reason with which this side closed the socket; undefined if it did not, or if the protocol was violated. */
  get closedWith(): CloseCode | undefined {
    return this.#closedWith
  }

  /** Bytes that are not yet written to the viewer. */
  get unsentBytes(): number {
    return this.#socket.bufferedAmount
  }

  /**
   * Sends terminal bytes. They are not copied and must not change afterwards. Closes a viewer that is too far behind.
   */
  output(bytes: Uint8Array): void {
    this.#send(bytes, true)
  }

  send(message: DaemonMessage): void {
    this.#send(JSON.stringify(daemonMessageToWire(message)), false)
  }

  /** Stops reading until `resumeInput`; what was read already is still passed on. */
  pauseInput(): void {
    if (!this.isOpen) return
    this.#isHeldBack = true
    this.#socket.pause()
  }

  resumeInput(): void {
    if (!this.#isHeldBack) return
    this.#isHeldBack = false
    this.#isLookedAt = false
    // This runs in a later turn: the held input may fill the room about which all viewers are being notified now.
    queueMicrotask(() => this.#guard(() => this.#catchUp()))
  }

  /**
   * Closes the socket with this reason; what was sent before still goes out. A final close waits for output on its way,
   * because the viewer cannot ask for it again; the wait is bounded by `limits.consoleLastOutputMs`. The server cuts
   * the connection `limits.consoleCloseMs` after the close was sent.
   */
  close(code: CloseCode, words?: string): void {
    if (!this.isOpen) {
      if (!losesOutput(code)) this.#sayClose()
      return
    }
    this.#closedWith = code
    this.#cancelTimer()
    const shown = words === undefined ? undefined : shownText(words)
    this.#sayClose = () => this.#socket.close(closes[code].status, closeReason(code, shown))
    // Resume reading, because the answer to the close must be read.
    this.#isHeldBack = false
    this.#socket.resume()
    if (this.#unsent === 0 || !losesOutput(code)) this.#sayClose()
    else this.#cancelTimer = this.#options.time.after(limits.consoleLastOutputMs, () => this.#sayClose())
  }

  #send(data: string | Uint8Array, binary: boolean): void {
    if (!this.isOpen) return
    this.#unsent += 1
    this.#socket.send(data, { binary }, () => this.#sent())
    if (this.unsentBytes > limits.consoleViewerBehindBytesMax) this.close('viewer_behind')
  }

  /** Counts a message as written. Pings and pongs are not counted: a few of them may follow the last message. */
  #sent(): void {
    this.#unsent -= 1
    if (this.isOpen) this.#listeners?.onSent?.()
    else if (this.#unsent === 0) this.#sayClose()
  }

  /** Handles every message and control frame of the viewer. */
  #take(handle: () => void): void {
    this.#alive = true
    if (!this.#rate.take(this.#options.time.monotonicMs())) {
      this.close('too_many_messages')
      return
    }
    // Drop what was read before the close and is handled only now.
    if (!this.isOpen) return
    // Stop again: this read was only to see whether the viewer is alive.
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
      const bytes = this.#held.head().slice()
      this.#held.drop(bytes.length)
      if (bytes.length === 0) {
        this.#alive = true
        this.#socket.resume()
        return
      }
      this.#listeners?.onInput(bytes)
    }
  }

  #text(message: ViewerMessage): void {
    if (message.kind === 'error') this.send(message)
    else if (message.kind === 'resize') this.#listeners?.onResize(message.size)
    else if (message.kind === 'output') this.#listeners?.onOutputPaused(message.isPaused)
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

  /**
   * Reads from a viewer whose input is paused, until the next ping. Only so can its pong arrive, with the input before
   * it.
   */
  #lookAt(): void {
    if (this.#held.length > limits.consoleHeldInputBytesMax) return
    this.#isLookedAt = true
    this.#socket.resume()
  }

  #closed(): void {
    this.#cancelTimer()
    this.#listeners?.onClosed()
  }
}

/** The console that a request will get, decided before the upgrade. */
export type OpenedConsole = {
  /** Called after the upgrade: connects what was opened to the viewer. */
  readonly begin: (viewer: ConsoleSocket) => void
  /** Called when the connection is gone, whether or not `begin` was called. */
  readonly abandon: () => void
  /** Set if there is no console: `begin` only closes the viewer, for this reason. */
  readonly closesWith?: CloseCode
}
