import { createServer as createPlainServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { TLSSocket } from 'node:tls'
import { limits } from '../../config/limits.ts'
import { HandshakeGate } from './handshake-gate.ts'
import { Refused } from './refused.ts'
import { RefusedHandshakes } from './refused-handshakes.ts'
import { beginsUpgrade } from './upgrade.ts'
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { SecureContextOptions } from 'node:tls'
import type { Log } from '../../log/log.ts'
import type { Transport } from './app.ts'

const httpOptions = {
  maxHeaderSize: limits.headerBytesMax,
  headersTimeout: limits.requestHeadersMs,
  requestTimeout: limits.requestMs,
  keepAliveTimeout: limits.keepAliveMs,
  connectionsCheckingInterval: limits.connectionCheckMs,
  shouldUpgradeCallback: beginsUpgrade,
} as const

/** No TLS and no authentication: only for tests and for viewing the pages, on loopback. */
export const plainTransport: Transport = {
  createServer: (handler) => createPlainServer(httpOptions, handler),
  authorize: () => undefined,
}

export type TlsTransport = Transport & {
  /** Closes connections with an unfinished handshake; otherwise the server would wait for them when it closes. */
  readonly endHandshakes: () => void
}

/**
 * TLS 1.3 with a client certificate: without a valid one the handshake fails, and a valid one with another common name
 * is answered 403.
 */
export function tlsTransport(secure: SecureContextOptions, commonName: string, log: Log): TlsTransport {
  const gate = new HandshakeGate()
  return {
    endHandshakes: () => gate.endAll(),
    authorize: authorizeCommonName(commonName),
    createServer: (handler) => {
      const server = createTlsServer(
        {
          ...httpOptions,
          ...secure,
          requestCert: true,
          rejectUnauthorized: true,
          handshakeTimeout: limits.handshakeMs,
          ALPNProtocols: ['http/1.1'],
        },
        handler,
      )
      server.maxConnections = limits.connectionsMax
      const refused = new RefusedHandshakes(log)
      guardHandshakes(server, gate, refused)
      server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) => {
        const reason = refusalOf(socket) ?? error.code ?? error.name
        refused.note({ peer: socket.remoteAddress, reason })
      })
      return server satisfies Server
    },
  }
}

/** Puts a gate before the TLS of a server. A connection that the gate refuses is closed before its handshake begins. */
function guardHandshakes(server: Server, gate: HandshakeGate, refused: RefusedHandshakes): void {
  const listeners = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    if (gate.admit(socket)) for (const listener of listeners) listener.call(server, socket)
    else {
      refused.note({ peer: socket.remoteAddress, reason: 'too_many_handshakes' })
      socket.destroy()
    }
  })
  server.on('secureConnection', (socket: TLSSocket) => gate.letIn(socket))
}

/** Returns why the client's certificate was refused: OpenSSL's own code, such as `CERT_HAS_EXPIRED`. */
const refusalOf = (socket: TLSSocket): string | undefined =>
  socket.authorizationError ? String(socket.authorizationError) : undefined

/**
 * Returns the common name of the peer's certificate; undefined if it has none or several, because we must not guess
 * which one is meant. The handshake verified the certificate.
 */
function peerCommonName(socket: TLSSocket): string | undefined {
  const name: unknown = socket.getPeerCertificate().subject?.CN
  return typeof name === 'string' ? name : undefined
}

/** Admits only the peer with exactly this common name. The answer is kept for the life of the connection. */
function authorizeCommonName(commonName: string): (request: IncomingMessage) => Refused | undefined {
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
