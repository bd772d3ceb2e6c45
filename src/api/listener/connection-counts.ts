import { Places } from '../../lib/places.ts'
import type { TLSSocket } from 'node:tls'

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
