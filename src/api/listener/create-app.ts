import fastify from 'fastify'
import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'
import { logAccess } from './access-log.ts'
import { answerErrors, unroutedAnswers } from './answer-errors.ts'
import { HeldAnswers } from './client-bounds.ts'
import { auditMutations } from './audit.ts'
import { observeAnswers } from './answer-end.ts'
import { describeApi } from './openapi.ts'
import { requestIdOf } from './request-id.ts'
import { parseJsonBodies, validateBySchema } from './validation.ts'
import { refuseMalformed } from './refuse-malformed.ts'
import { Refused } from './refused.ts'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { TSchema } from 'typebox'
import type { Log } from '../../log/log.ts'
import type { App, Peer, Transport } from './app.ts'
import type { FindVersions } from './audit.ts'
import type { AnswerObserver } from './answer-end.ts'
import type { ApiDescription } from './openapi.ts'
import type { Pages } from './problem-page.ts'

type AppOptions = {
  readonly transport: Transport
  readonly description: ApiDescription
  /** Path of the page or document that lists all routes. */
  readonly reference: string
  /** Schemas that routes refer to by name. */
  readonly schemas: Readonly<Record<string, TSchema>>
  /** Name of the field for the peer's name in access log lines; if it is absent, they do not have the name. */
  readonly peerField?: string
  /** For the audit trail; absent if the API changes no record that has versions. */
  readonly findVersions?: FindVersions
  /** Adds a plugin whose hooks must come before all others. */
  readonly prepare?: (app: App) => Promise<void>
  /** Absent: `limits.bodyBytesMax`. */
  readonly bodyBytesMax?: number
  /** Where browsers get refusals as pages. */
  readonly pages?: Pages
  readonly addRoutes: (app: App) => void
  readonly onAnswered?: AnswerObserver
  readonly log: Log
}

/**
 * Creates an API on a transport, ready but not listening. All of it is the same for every API, but its routes. Hooks
 * that every request passes take callbacks, because it would wait for the promise of each.
 */
export async function createApp({ transport, log, ...options }: AppOptions): Promise<App> {
  const unrouted = unroutedAnswers(transport, log, options.pages)
  const app: App = fastify({
    serverFactory: (handler) => transport.createServer(handler),
    logger: false,
    genReqId: requestIdOf,
    bodyLimit: options.bodyBytesMax ?? limits.bodyBytesMax,
    // An id that is too long is a malformed id, not an unknown route.
    routerOptions: { maxParamLength: limits.headerBytesMax },
    // Requests under way are answered when the daemon stops, not refused.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    clientErrorHandler: (error, socket) => unrouted.brokenRequest(error, socket),
    frameworkErrors: (_error, request, reply) => unrouted.badUrl(request.raw, reply.raw),
  }).withTypeProvider<TypeBoxTypeProvider>()
  app.addHook('preClose', async () => transport.stopListening?.())
  endKeptConnections(app)
  await options.prepare?.(app)
  logAccess(app, log, options.peerField)
  auditMutations(app, { log, ...given({ find: options.findVersions }) })
  boundAnswers(app, log)
  if (options.onAnswered !== undefined) observeAnswers(app, options.onAnswered)
  guardRequests(app, transport, options.reference)
  answerErrors(app, log, options.pages)
  parseJsonBodies(app)
  validateBySchema(app, options.schemas)
  // Without this, Fastify compiles a serializer for each status of each route: 25 MiB, and not faster.
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer))
  await describeApi(app, options.description)
  // The routes are in a plugin of their own: the OpenAPI plugin sees only routes that are made after it is loaded.
  await app.register(async (routes) => options.addRoutes(routes.withTypeProvider<TypeBoxTypeProvider>()))
  await app.ready()
  return app
}

/**
 * Ends the connection of each request that is answered while the app closes: it would stay open for the next request,
 * and the close would wait for it. Fastify does so only for requests that come after the close began.
 */
function endKeptConnections(app: App): void {
  let isClosing = false
  app.addHook('preClose', (done) => {
    isClosing = true
    done()
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isClosing) reply.header('connection', 'close')
    done(null, payload)
  })
}

/** Bounds what clients ask for and do not take. Streams have bounds of their own. */
function boundAnswers(app: App, log: Log): void {
  const held = new HeldAnswers(limits.heldAnswersBytesMax, (peer) =>
    log.warn({ ...peer }, 'connection closed: its client takes no answers'),
  )
  app.addHook('onSend', (request, reply, payload, done) => {
    if (typeof payload === 'string' || Buffer.isBuffer(payload))
      held.note(reply.raw, payload.length, request.peer)
    done(null, payload)
  })
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The common name of the client's certificate. */
    peerName: string
    peer: Peer
  }
}

/**
 * Runs before every route, in this order: the request id, the peer's name, whether the request is valid HTTP, and
 * whether the route and its method exist. A request that fails here is answered before its body is read. `reference` is
 * the path that lists all routes.
 */
function guardRequests(app: App, transport: Transport, reference: string): void {
  app.decorateRequest('peerName', '')
  app.decorateRequest('peer')
  const routes: { readonly matches: RegExp; readonly method: string }[] = []
  app.addHook('onRoute', ({ url, method }) => {
    const matches = new RegExp(`^${url.replaceAll(/:[^/]+/g, '[^/]+').replaceAll('.', '\\.')}$`)
    for (const one of [method].flat()) routes.push({ matches, method: one })
  })
  const methodsAt = (path: string): string[] => [
    ...new Set(routes.filter((route) => route.matches.test(path)).map(({ method }) => method)),
  ]

  const refuseUnrouted = (url = ''): Refused => {
    const [path = ''] = url.split('?', 1)
    const allowed = methodsAt(path).toSorted()
    return allowed.length === 0
      ? new Refused({ code: 'not_found', detail: `there is no such route; see ${reference}` })
      : new Refused(
          { code: 'method_not_allowed', detail: `this route takes ${allowed.join(', ')}` },
          { allow: allowed.join(', ') },
        )
  }

  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    request.peer = transport.peer(request.raw)
    const peer = transport.authorize(request.raw)
    if (!peer.ok) return done(new Refused(peer.error))
    request.peerName = peer.value
    const malformed = refuseMalformed(request.raw)
    if (malformed !== undefined) return done(new Refused(malformed))
    done(request.is404 ? refuseUnrouted(request.raw.url) : undefined)
  })
}
