import { parseClose, parseDaemonMessage } from '../../client/console-messages.ts'
import { limits } from '../../config/limits.ts'
import { routeOf } from './place.ts'
import { askWhy } from './refusal.ts'
import { afterClose } from './status.ts'
import type { AttachedPlace } from '../../client/console-messages.ts'
import type { Place, Position, Window } from './place.ts'
import type { Status } from './status.ts'

/** The part of the page that shows a console and takes input. */
export type Display = {
  /** Present size of the display. */
  readonly size: Window
  /** Bytes of output that were taken and are not drawn yet. */
  readonly waiting: number
  /** Resolves when all output is drawn. */
  drawn(): Promise<void>
  /** Begins a session; `sameAsBefore` if its output is shown already. */
  begin(session: AttachedPlace | undefined, sameAsBefore: boolean): void
  output(bytes: Uint8Array): void
  status(status: Status): void
}

/** Keeps a display connected to one console for as long as that is possible. */
export class Connection {
  readonly #place: Place
  readonly #display: Display
  #socket: WebSocket | undefined
  #position: Position | undefined
  #attached = false
  #heard = false
  #retryMs: number = limits.clientReconnectMsMin
  #retry: ReturnType<typeof setTimeout> | undefined

  constructor(place: Place, display: Display) {
    this.#place = place
    this.#display = display
    setInterval(() => this.#checkLife(), limits.consolePingMs)
  }

  connect(): void {
    clearTimeout(this.#retry)
    this.#drop()
    const route = routeOf(this.#place, this.#display.size, this.#position)
    const socket = new WebSocket(`wss://${location.host}${route}`)
    this.#socket = socket
    this.#heard = true
    socket.binaryType = 'arraybuffer'
    let opened = false
    socket.addEventListener('open', () => {
      opened = true
    })
    socket.addEventListener('message', ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (socket !== this.#socket) return
      this.#heard = true
      if (typeof data === 'string') this.#told(data)
      else this.#output(new Uint8Array(data))
    })
    socket.addEventListener('close', ({ code, reason }) => {
      if (socket !== this.#socket) return
      this.#drop()
      if (opened) this.#ended(code, reason)
      else void this.#refused(route)
    })
  }

  /** Sends input; without a session the input is dropped, and the status shows that. */
  type(bytes: Uint8Array<ArrayBuffer>): void {
    if (!this.#attached) return
    for (let at = 0; at < bytes.length; at += limits.consoleMessageBytesMax) {
      this.#socket?.send(bytes.subarray(at, at + limits.consoleMessageBytesMax))
    }
  }

  resize({ cols, rows }: Window): void {
    if (this.#attached) this.#tell({ resize: { cols, rows } })
  }

  #told(text: string): void {
    const message = parseDaemonMessage(text)
    switch (message?.kind) {
      case 'attached':
        this.#begin(message.place)
        break
      case 'waiting':
        this.#attached = false
        this.#display.status({ kind: 'waiting' })
        break
      case 'error':
        // This is a bug of the page, which its developer should see.
        reportError(new Error(message.detail))
        break
      // Any answer proves that the daemon lives. A newer daemon may send more kinds than the page knows.
      case 'position':
      case undefined:
        break
      default:
        message satisfies never
    }
  }

  #begin(session: AttachedPlace | undefined): void {
    const same = session !== undefined && session.session === this.#position?.session
    this.#position = session && { session: session.session, cursor: session.cursor }
    this.#attached = true
    this.#retryMs = limits.clientReconnectMsMin
    this.#display.begin(session, same)
    this.#display.status({ kind: 'attached' })
    this.resize(this.#display.size)
  }

  #output(bytes: Uint8Array): void {
    const position = this.#position
    if (position !== undefined)
      this.#position = { session: position.session, cursor: position.cursor + bytes.length }
    this.#display.output(bytes)
    // A browser cannot stop reading a WebSocket, so its memory would fill. Disconnect, and reconnect at the newest
    // output.
    if (this.#display.waiting > limits.consolePageBehindBytesMax) void this.#catchUp()
  }

  async #catchUp(): Promise<void> {
    this.#drop()
    this.#display.status({ kind: 'behind' })
    await this.#display.drawn()
    if (this.#socket === undefined) this.connect()
  }

  #ended(code: number, reason: string): void {
    const next = afterClose(this.#place.mode, parseClose(code, reason))
    if (next.kind === 'again') this.#again(next.because)
    else this.#display.status({ kind: 'ended', words: next.words })
  }

  /** Finds out why an upgrade was refused, because browsers do not show it. */
  async #refused(route: string): Promise<void> {
    const why = await askWhy(route, this.#position !== undefined)
    if (this.#socket !== undefined) return
    if (why.kind === 'again') this.#again(why.because)
    else this.#display.status({ kind: 'refused', title: why.title, detail: why.detail })
  }

  #again(because: string): void {
    this.#display.status({ kind: 'away', because })
    // Draw the waiting output first: a page that was too slow reconnects when it has time.
    this.#retry = setTimeout(() => void this.#display.drawn().then(() => this.connect()), this.#retryMs)
    this.#retryMs = Math.min(this.#retryMs * 2, limits.clientReconnectMsMax)
  }

  /**
   * Detects a connection that ended silently, because the machine slept or the network is gone. A connection attempt
   * has as much time as an open connection: more than a guest has for its shell.
   */
  #checkLife(): void {
    const connecting = this.#socket?.readyState === WebSocket.CONNECTING
    const open = this.#socket?.readyState === WebSocket.OPEN
    if (!connecting && !(open && this.#place.mode === 'tty')) return
    if (!this.#heard) {
      this.#drop()
      this.#again(connecting ? 'The daemon does not answer' : 'The connection is silent')
      return
    }
    this.#heard = false
    if (open) this.#tell({ position: {} })
  }

  #tell(message: object): void {
    this.#socket?.send(JSON.stringify(message))
  }

  #drop(): void {
    const socket = this.#socket
    this.#socket = undefined
    this.#attached = false
    socket?.close()
  }
}
