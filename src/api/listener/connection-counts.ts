import type { TLSSocket } from 'node:tls'

/** Bounds the connections of each party, so that none can keep the others out. */
export class ConnectionCounts {
  readonly #most: number
  readonly #counts = new Map<string, number>()

  /** @param most connections of one party at once */
  constructor(most: number) {
    this.#most = most
  }

  /** Returns whether there is room for one more connection of the party, and counts it until it closes. */
  admit(party: string, socket: Pick<TLSSocket, 'once'>): boolean {
    const count = this.#counts.get(party) ?? 0
    if (count >= this.#most) return false
    this.#counts.set(party, count + 1)
    socket.once('close', () => {
      const left = (this.#counts.get(party) ?? 0) - 1
      if (left > 0) this.#counts.set(party, left)
      else this.#counts.delete(party)
    })
    return true
  }
}
