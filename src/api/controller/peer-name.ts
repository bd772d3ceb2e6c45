import { TLSSocket } from 'node:tls'
import { Refused } from './refused.ts'
import type { IncomingMessage } from 'node:http'

/**
 * Returns the common name of the peer's certificate; undefined if it has none or several, because we must not guess
 * which one is meant. The handshake verified the certificate.
 */
export function peerCommonName(socket: TLSSocket): string | undefined {
  const name: unknown = socket.getPeerCertificate().subject?.CN
  return typeof name === 'string' ? name : undefined
}

/** Admits only the peer with exactly this common name. The answer is kept for the life of the connection. */
export function authorizeCommonName(commonName: string): (request: IncomingMessage) => Refused | undefined {
  const known = new WeakMap<object, boolean>()
  return ({ socket }) => {
    let welcome = known.get(socket)
    if (welcome === undefined) {
      welcome = socket instanceof TLSSocket && socket.authorized && peerCommonName(socket) === commonName
      known.set(socket, welcome)
    }
    if (welcome) return undefined
    return new Refused({
      code: 'forbidden',
      detail: 'the client certificate does not have the common name that is configured for the controller',
    })
  }
}
