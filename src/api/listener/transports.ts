import { createServer as createPlainServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { TLSSocket } from 'node:tls'
import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'
import { ok } from '../../lib/result.ts'
import { HandshakeGate, RefusedHandshakes } from './handshake-gate.ts'
import { peerCertificate } from './peer-chain.ts'
import { RequestsAtOnce } from './client-bounds.ts'
import type { IncomingMessage, RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { SecureContextOptions } from 'node:tls'
import type { Rejection } from '../../core/errors.ts'
import type { Result } from '../../lib/result.ts'
import type { Log } from '../../log/log.ts'
import type { Peer, Transport } from './app.ts'

/**
 * Returns whether a request becomes another protocol. Other requests are answered as if they had not asked for that.
 */
export type BeginsUpgrade = (request: IncomingMessage) => boolean

/**
 * Decides whether a peer with this common name may use the API. A certificate without exactly one name has undefined.
 */
export type Admit = (commonName: string | undefined) => Result<string, Rejection>

/** Returns whether the verified peer with this common name may have one more connection. Called once for each. */
export type HasRoom = (commonName: string | undefined, socket: TLSSocket) => boolean

const httpOptions = {
  maxHeaderSize: limits.headerBytesMax,
  headersTimeout: limits.requestHeadersMs,
  requestTimeout: limits.requestMs,
  keepAliveTimeout: limits.keepAliveMs,
  connectionsCheckingInterval: limits.connectionCheckMs,
  // The handler refuses it, as every other malformed request.
  requireHostHeader: false,
} as const

/** Lets no request become another protocol while an earlier one of its connection has no answer. */
const alone =
  (requests: RequestsAtOnce, beginsUpgrade: BeginsUpgrade): BeginsUpgrade =>
  (request) =>
    requests.of(request) === 0 && beginsUpgrade(request)

/**
 * Gives a server its handler, also for requests with an expectation that Node does not know and would answer itself.
 */
const handleAll = <S extends Server>(server: S, handler: RequestListener): S =>
  server.on('request', handler).on('checkExpectation', handler)

/** No TLS and no authentication: only for tests and for viewing the pages, on loopback. */
export const plainTransport = (beginsUpgrade: BeginsUpgrade): Transport => ({
  createServer: (handler) => {
    const requests = new RequestsAtOnce()
    const server = createPlainServer({
      ...httpOptions,
      shouldUpgradeCallback: alone(requests, beginsUpgrade),
    })
    return handleAll(server, requests.bound(handler))
  },
  peer: ({ socket }) => given({ peer_address: socket.remoteAddress }),
  authorize: () => ok('plain'),
})

export type TlsTransport = Transport & {
  /** Closes connections with an unfinished handshake; otherwise the server would wait for them when it closes. */
  readonly endHandshakes: () => void
}

export type TlsTransportOptions = {
  readonly secure: SecureContextOptions
  readonly admit: Admit
  readonly beginsUpgrade: BeginsUpgrade
  /** Returns whether the certificate of a peer is revoked. */
  readonly isRevoked: (socket: TLSSocket) => boolean
  readonly hasRoom: HasRoom
  readonly log: Log
}

/**
 * TLS 1.3 with a client certificate: without a valid one the handshake fails, and a valid one whose name is not
 * admitted is answered 403.
 */
export function tlsTransport({
  secure,
  admit,
  beginsUpgrade,
  isRevoked,
  hasRoom,
  log,
}: TlsTransportOptions): TlsTransport {
  const gate = new HandshakeGate()
  return {
    endHandshakes: () => gate.endAll(),
    peer: oncePerConnection(peerOf),
    authorize: authorizeByName(admit),
    createServer: (handler) => {
      const requests = new RequestsAtOnce()
      const server = createTlsServer({
        ...httpOptions,
        ...secure,
        shouldUpgradeCallback: alone(requests, beginsUpgrade),
        requestCert: true,
        rejectUnauthorized: true,
        handshakeTimeout: limits.handshakeMs,
        ALPNProtocols: ['http/1.1'],
      })
      handleAll(server, requests.bound(handler))
      server.maxConnections = limits.connectionsMax
      const refused = new RefusedHandshakes(log)
      guardHandshakes(server, { gate, refused, isRevoked, hasRoom })
      server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) => {
        const reason = refusalOf(socket) ?? error.code ?? error.name
        refused.note({ peer: socket.remoteAddress, reason })
      })
      return server satisfies Server
    },
  }
}

/** Puts a gate before the TLS of a server. A connection that the gate refuses is closed before its handshake begins. */
function guardHandshakes(
  server: Server,
  {
    gate,
    refused,
    isRevoked,
    hasRoom,
  }: Pick<TlsTransportOptions, 'isRevoked' | 'hasRoom'> & { gate: HandshakeGate; refused: RefusedHandshakes },
): void {
  const listeners = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    if (gate.admit(socket)) for (const listener of listeners) listener.call(server, socket)
    else {
      refused.note({ peer: socket.remoteAddress, reason: 'too_many_handshakes' })
      socket.destroy()
    }
  })
  // Before the listener of the HTTP server.
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    const revoked = isRevoked(socket)
    // A revoked certificate counts as a handshake that failed.
    if (!revoked) gate.letIn(socket)
    const certificate = peerCertificate(socket)
    if (!revoked && hasRoom(certificate.certificate_name, socket)) return
    const reason = revoked ? 'CERT_REVOKED' : 'too_many_connections'
    refused.note({ peer: socket.remoteAddress, reason, certificate })
    socket.destroy()
  })
}

/** Returns why the client's certificate was refused: OpenSSL's own code, such as `CERT_HAS_EXPIRED`. */
const refusalOf = (socket: TLSSocket): string | undefined =>
  socket.authorizationError ? String(socket.authorizationError) : undefined

/** Returns the peer of a connection. The serial number says which of several certificates with one name it has. */
function peerOf(socket: Socket): Peer {
  const address = { peer_address: socket.remoteAddress }
  if (!(socket instanceof TLSSocket)) return given(address)
  return given({ ...address, ...peerCertificate(socket) })
}

/** Decides by the name of the peer. The answer is kept for the life of the connection. */
function authorizeByName(admit: Admit): Transport['authorize'] {
  return oncePerConnection((socket) => {
    const verified = socket instanceof TLSSocket && socket.authorized
    return admit(verified ? peerCertificate(socket).certificate_name : undefined)
  })
}

/**
 * Returns a function that finds something by the connection of a request. A client shows its certificate in the
 * handshake alone, so each connection is asked once.
 */
function oncePerConnection<T extends object>(find: (socket: Socket) => T): (request: IncomingMessage) => T {
  const known = new WeakMap<Socket, T>()
  return ({ socket }) => {
    let found = known.get(socket)
    if (found === undefined) {
      found = find(socket)
      known.set(socket, found)
    }
    return found
  }
}
