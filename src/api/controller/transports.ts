import { createServer as createPlainServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { authorizeCommonName } from './peer-name.ts'
import { beginsUpgrade } from './upgrade.ts'
import type { Server } from 'node:http'
import type { SecureContextOptions, TLSSocket } from 'node:tls'
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

/** No TLS and no authentication: for tests and for looking at the pages, on loopback. */
export const plainTransport: Transport = {
  createServer: (handler) => createPlainServer(httpOptions, handler),
  authorize: () => undefined,
}

/**
 * TLS 1.3 with a client certificate: without a valid one the handshake fails, and a valid one with another common name
 * is answered 403.
 */
export function tlsTransport(secure: SecureContextOptions, commonName: string, log: Log): Transport {
  return {
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
      server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) => {
        log.info(
          { peer: socket.remoteAddress, code: error.code, reason: refusalOf(socket) ?? errorChain(error) },
          'a connection was refused in its TLS handshake',
        )
      })
      return server satisfies Server
    },
  }
}

/** Why the client's certificate was not accepted; OpenSSL's own code, such as `CERT_HAS_EXPIRED`. */
const refusalOf = (socket: TLSSocket): string | undefined =>
  socket.authorizationError ? String(socket.authorizationError) : undefined
