import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Rejection } from '../../core/errors.ts'
import type { Result } from '../../lib/result.ts'

/** The server that routes and hooks are added to, with types from TypeBox schemas. */
export type App = FastifyInstance<
  Server,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

/** Sender of a request, in the words of the audit trail: as far as it is known, admitted or not. */
export type Peer = {
  readonly peer_address?: string
  /** The common name of the client certificate; absent without exactly one. */
  readonly certificate_name?: string
  /** As `openssl x509 -serial` prints it. */
  readonly certificate_serial?: string
  readonly role?: string
}

/** How requests come in. The routes do not depend on it. */
export type Transport = {
  readonly createServer: (handler: RequestListener) => Server
  /** Ends the listening of a server that the app did not make listen itself; absent if the app does that. */
  readonly stopListening?: () => void
  readonly peer: (request: IncomingMessage) => Peer
  /** Returns the name of the peer of a request, or why that peer may not use this API. */
  readonly authorize: (request: IncomingMessage) => Result<string, Rejection>
}
