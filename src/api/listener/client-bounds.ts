/** Bounds of what clients can make a listener hold: connections, requests and answers. */
import { Places } from '../../lib/places.ts'
import { limits } from '../../config/limits.ts'
import type { TLSSocket } from 'node:tls'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Peer } from './app.ts'

/** Bounds the connections of each party, so that none can keep the others out. */
export class ConnectionCounts {
  readonly #places: Places<string>

  /** @param most connections of one party at once */
  constructor(most: number) {
    this.#places = new Places(most)
  }

  /** Returns whether there is room for one more connection of the party, and counts it until it closes. */
  admit(party: string, socket: Pick<TLSSocket, 'once'>): boolean {
    const release = this.#places.take(party)
    if (release !== undefined) socket.once('close', release)
    return release !== undefined
  }
}

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

/**
 * Bounds the bytes of all answers that clients have not taken yet. Without a bound, clients that ask for much and read
 * nothing could fill the memory of the host. Beyond it, the connections close whose clients have taken nothing for
 * longest. Answers that are taken leave within milliseconds, so those are of clients that read nothing.
 */
export class HeldAnswers {
  readonly #bytesMax: number
  readonly #onClose: (peer: Peer) => void
  #bytes = 0
  /** Bytes by connection; the one that took something last comes last. */
  readonly #held = new Map<Socket, { readonly bytes: number; readonly peer: Peer }>()
  readonly #watched = new WeakSet<Socket>()

  /** @param onClose called before a connection is closed for its answers */
  constructor(bytesMax: number, onClose: (peer: Peer) => void) {
    this.#bytesMax = bytesMax
    this.#onClose = onClose
  }

  /** Notes an answer that is about to be sent, and closes connections beyond the bound. */
  note(response: ServerResponse, bytes: number, peer: Peer): void {
    const { socket } = response.req
    if (socket.destroyed) return
    this.#held.set(socket, { bytes: (this.#held.get(socket)?.bytes ?? 0) + bytes, peer })
    this.#bytes += bytes
    response.once('close', () => this.#release(socket, bytes))
    // Node closes no answers that still wait for their turn on a connection that ends.
    if (!this.#watched.has(socket)) socket.once('close', () => this.#release(socket))
    this.#watched.add(socket)
    for (const [oldest, { peer: client }] of this.#held) {
      if (this.#bytes <= this.#bytesMax) return
      this.#onClose(client)
      this.#release(oldest)
      oldest.destroy()
    }
  }

  #release(socket: Socket, bytes = Infinity): void {
    const held = this.#held.get(socket)
    if (held === undefined) return
    const left = Math.max(0, held.bytes - bytes)
    this.#bytes -= held.bytes - left
    this.#held.delete(socket)
    if (left > 0) this.#held.set(socket, { ...held, bytes: left })
  }
}
