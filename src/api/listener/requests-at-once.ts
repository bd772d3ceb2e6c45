import { limits } from '../../config/limits.ts'
import type { IncomingMessage, RequestListener } from 'node:http'

/**
 * Bounds the requests of one connection that are not answered yet. A client may send the next ones before the answer
 * (RFC 9112, section 9.3.2), and Node takes them all as long as no answer waits in the socket. A long poll holds its
 * request for a minute, so one connection could make the daemon hold any number.
 */
export class RequestsAtOnce {
  readonly #open = new WeakMap<object, number>()

  /** Returns how many requests of the connection are not answered yet. */
  of({ socket }: IncomingMessage): number {
    return this.#open.get(socket) ?? 0
  }

  /** Wraps a handler. A connection with one request too many is closed, and none of its further requests is taken. */
  bound(handler: RequestListener): RequestListener {
    return (request, response) => {
      const { socket } = request
      if (socket.destroyed) return
      if (this.of(request) >= limits.requestsPerConnectionMax) {
        socket.destroy()
        return
      }
      this.#open.set(socket, this.of(request) + 1)
      response.once('close', () => this.#open.set(socket, this.of(request) - 1))
      handler(request, response)
    }
  }
}
