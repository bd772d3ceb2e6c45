import { limits } from '../../config/limits.ts'
import type { TLSSocket } from 'node:tls'

/**
 * Bounds the connections of clients that are not controllers. So they cannot keep a controller out, who may have to stop
 * a VM or to withdraw an offer.
 */
export class OtherConnections {
  #count = 0

  /** Returns whether there is room for one more connection, and counts it until it closes. */
  admit(socket: Pick<TLSSocket, 'once'>): boolean {
    if (this.#count >= limits.connectionsOthersMax) return false
    this.#count += 1
    socket.once('close', () => {
      this.#count -= 1
    })
    return true
  }
}
