import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Refused } from './refused.ts'

/** The server that routes and hooks are added to, with types from TypeBox schemas. */
export type App = FastifyInstance<
  Server,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

/** How requests come in. The routes do not depend on it. */
export type Transport = {
  readonly createServer: (handler: RequestListener) => Server
  /** Says why the peer of a request may not use this API; returns undefined if it may. */
  readonly authorize: (request: IncomingMessage) => Refused | undefined
}
