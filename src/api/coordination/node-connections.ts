import { limits } from '../../config/limits.ts'
import type { TLSSocket } from 'node:tls'

/** Bounds the connections of each node, so that none can keep the others out. */
export class NodeConnections {
  readonly #counts = new Map<string, number>()

  /** Returns whether there is room for one more connection of the node, and counts it until it closes. */
  admit(node: string, socket: Pick<TLSSocket, 'once'>): boolean {
    const count = this.#counts.get(node) ?? 0
    if (count >= limits.connectionsOfNodeMax) return false
    this.#counts.set(node, count + 1)
    socket.once('close', () => {
      const left = (this.#counts.get(node) ?? 0) - 1
      if (left > 0) this.#counts.set(node, left)
      else this.#counts.delete(node)
    })
    return true
  }
}
