import { WebSocket } from 'ws'
import { limits } from '../../config/limits.ts'
import { closeReason, closes } from '../../core/console/close.ts'
import { ConsoleSocket } from './console-socket.ts'
import type { ServerOptions } from 'ws'
import type { CloseCode } from '../../core/console/close.ts'
import type { ConsoleSocketOptions } from './console-socket.ts'

/** Reasons with which the library closes a socket by itself. */
const BY_PROTOCOL: readonly CloseCode[] = [
  'protocol_error',
  'not_utf8',
  'too_many_messages',
  'message_too_big',
]

/** Adds a reason when the library closes the socket because of a protocol violation; the library gives none. */
class ReasonedWebSocket extends WebSocket {
  override close(status?: number, reason?: string | Buffer): void {
    const code = BY_PROTOCOL.find((one) => closes[one].status === status)
    super.close(status, reason ?? (code === undefined ? undefined : closeReason(code)))
  }
}

/** Options of the server: bounded, strict, and without compression, which does little for terminal output. */
export const webSocketOptions: ServerOptions & { readonly closeTimeout: number } = {
  perMessageDeflate: false,
  skipUTF8Validation: false,
  maxPayload: limits.consoleMessageBytesMax,
  clientTracking: true,
  closeTimeout: limits.consoleCloseMs,
  WebSocket: ReasonedWebSocket,
}

/** Holds the console sockets of a listener and closes them with it. */
export class ConsoleSockets {
  readonly #options: ConsoleSocketOptions
  readonly #open = new Set<ConsoleSocket>()
  #stopped = false

  constructor(options: ConsoleSocketOptions) {
    this.#options = options
  }

  /** Registers a socket, in the turn in which it was made. */
  take(socket: WebSocket): ConsoleSocket {
    const taken = new ConsoleSocket(socket, this.#options)
    this.#open.add(taken)
    socket.on('close', () => this.#open.delete(taken))
    if (this.#stopped) taken.close('daemon_stops')
    return taken
  }

  /** Closes all sockets, and from now on each new one. */
  stop(): void {
    this.#stopped = true
    for (const socket of this.#open) socket.close('daemon_stops')
  }
}
