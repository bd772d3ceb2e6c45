import fastify from 'fastify'
import { limits } from '../../config/limits.ts'
import { logAccess } from './access-log.ts'
import { answerErrors } from './answer-errors.ts'
import { unroutedAnswers } from './answer-unrouted.ts'
import { guardRequests } from './guard-requests.ts'
import { describeApi } from './openapi.ts'
import { requestIdOf } from './request-id.ts'
import { consolePageRoutes } from './routes/console-page.ts'
import { consoleRoute } from './routes/console.ts'
import { docsRoutes } from './routes/docs.ts'
import { healthRoutes } from './routes/health.ts'
import { imageRoutes } from './routes/images.ts'
import { snapshotChangeRoutes } from './routes/snapshot-changes.ts'
import { snapshotReadRoutes } from './routes/snapshot-reads.ts'
import { syncRoutes } from './routes/sync.ts'
import { vmChangeRoutes } from './routes/vm-changes.ts'
import { vmShapeRoutes } from './routes/vm-shape.ts'
import { vmReadRoutes } from './routes/vm-reads.ts'
import { acceptUpgrades } from './upgrade.ts'
import { parseJsonBodies, validateBySchema } from './validation.ts'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { ApiDependencies } from './dependencies.ts'
import type { App, Transport } from './app.ts'

/** Creates the controller API on a transport, ready but not listening. */
export async function createControllerApp(dependencies: ApiDependencies, transport: Transport): Promise<App> {
  const unrouted = unroutedAnswers(transport, dependencies.log)
  const app: App = fastify({
    serverFactory: (handler) => transport.createServer(handler),
    logger: false,
    genReqId: requestIdOf,
    bodyLimit: limits.bodyBytesMax,
    // An id that is too long is a malformed id, not an unknown route.
    routerOptions: { maxParamLength: limits.headerBytesMax },
    // Requests under way are answered when the daemon stops, not refused.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    clientErrorHandler: (error, socket) => unrouted.brokenRequest(error, socket),
    frameworkErrors: (_error, request, reply) => unrouted.badUrl(request.raw, reply.raw),
  }).withTypeProvider<TypeBoxTypeProvider>()
  await acceptUpgrades(app, dependencies.log)
  logAccess(app, dependencies.log)
  guardRequests(app, transport)
  answerErrors(app, dependencies.log)
  parseJsonBodies(app)
  validateBySchema(app)
  // Without this, Fastify compiles a serializer for each status of each route: 25 MiB, and not faster.
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer))
  await describeApi(app, dependencies.version)
  // The routes are in a plugin of their own: the OpenAPI plugin sees only routes that are made after it is loaded.
  await app.register(async (routes) => {
    const typed = routes.withTypeProvider<TypeBoxTypeProvider>()
    healthRoutes(typed, dependencies)
    syncRoutes(typed, dependencies)
    vmReadRoutes(typed, dependencies)
    vmChangeRoutes(typed, dependencies)
    vmShapeRoutes(typed, dependencies)
    snapshotReadRoutes(typed, dependencies)
    snapshotChangeRoutes(typed, dependencies)
    imageRoutes(typed, dependencies)
    consoleRoute(typed, dependencies)
    consolePageRoutes(typed, dependencies)
    docsRoutes(typed, dependencies)
  })
  await app.ready()
  return app
}
