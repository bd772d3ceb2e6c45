import { limits } from '../../config/limits.ts'
import { createApp } from '../listener/create-app.ts'
import { healthRoutes } from '../listener/health.ts'
import { referenceRoutes } from '../listener/reference.ts'
import { given } from '../../lib/given.ts'
import { coordinationSchemas } from '../wire/named.ts'
import { migrationRoutes } from './migrations.ts'
import { describeCoordination } from './openapi.ts'
import type { App, Transport } from '../listener/app.ts'
import type { CoordinationDependencies } from './dependencies.ts'

const DOCUMENT_PATH = '/docs/coordination.json'

/** Creates the coordination API on a transport, ready but not listening. */
export const createCoordinationApp = (
  dependencies: CoordinationDependencies,
  transport: Transport,
): Promise<App> =>
  createApp({
    transport,
    description: describeCoordination(dependencies.version),
    reference: DOCUMENT_PATH,
    schemas: coordinationSchemas,
    peerField: 'node',
    bodyBytesMax: limits.coordinationBodyBytesMax,
    addRoutes(routes) {
      healthRoutes(routes, dependencies)
      migrationRoutes(routes, dependencies)
      referenceRoutes(routes, {
        documentPath: DOCUMENT_PATH,
        errorsMarkdown: dependencies.errorsMarkdown,
      })
    },
    ...given({ onAnswered: dependencies.onAnswered }),
    log: dependencies.log,
  })
