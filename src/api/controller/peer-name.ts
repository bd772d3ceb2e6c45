import { TLSSocket } from 'node:tls'
import { Refused } from './refused.ts'
import type { IncomingMessage } from 'node:http'

/**
 * The common name of the peer's certificate, or undefined where it has none or several: which of several is meant is
 * not for us to guess. The certificate was verified in the handshake.
 */
export function peerCommonName(socket: TLSSocket): string | undefined {
  const name: unknown = socket.getPeerCertificate().subject?.CN
  return typeof name === 'string' ? name : undefined
}

/** Lets only the peer with exactly this common name in. The answer is kept for the life of the connection. */
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
