import { WebSocket } from 'ws'
import { limits } from '../../config/limits.ts'
import { closeReason, closes } from '../../core/console/close.ts'
import { ConsoleSocket } from './console-socket.ts'
import type { ServerOptions } from 'ws'
import type { CloseCode } from '../../core/console/close.ts'
import type { ConsoleSocketOptions } from './console-socket.ts'

/** What the library closes a socket with by itself. */
const BY_PROTOCOL: readonly CloseCode[] = [
  'protocol_error',
  'not_utf8',
  'too_many_messages',
  'message_too_big',
]

/** Gives a reason also where the library closes the socket for a breach of the protocol: it gives none. */
class ReasonedWebSocket extends WebSocket {
  override close(status?: number, reason?: string | Buffer): void {
    const code = BY_PROTOCOL.find((one) => closes[one].status === status)
    super.close(status, reason ?? (code === undefined ? undefined : closeReason(code)))
  }
}

/** How the server reads: bounded, checked, and without compression, which terminals gain nothing from. */
export const webSocketOptions: ServerOptions & { readonly closeTimeout: number } = {
  perMessageDeflate: false,
  skipUTF8Validation: false,
  maxPayload: limits.consoleMessageBytesMax,
  clientTracking: true,
  closeTimeout: limits.consoleCloseMs,
  WebSocket: ReasonedWebSocket,
}

/** The console sockets of a listener, to be ended with it. */
export class ConsoleSockets {
  readonly #options: ConsoleSocketOptions
  readonly #open = new Set<ConsoleSocket>()
  #stopped = false

  constructor(options: ConsoleSocketOptions) {
    this.#options = options
  }

  /** Takes a socket in hand in the turn in which it was made. */
  take(socket: WebSocket): ConsoleSocket {
    const taken = new ConsoleSocket(socket, this.#options)
    this.#open.add(taken)
    socket.on('close', () => this.#open.delete(taken))
    if (this.#stopped) taken.close('daemon_stops')
    return taken
  }

  /** Closes all, and from now on whatever comes. */
  stop(): void {
    this.#stopped = true
    for (const socket of this.#open) socket.close('daemon_stops')
  }
}
