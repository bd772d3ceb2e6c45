import { createApp } from '../listener/create-app.ts'
import { healthRoutes } from '../listener/health.ts'
import { referenceRoutes } from '../listener/reference.ts'
import { metricsSchemas } from '../wire/named.ts'
import { given } from '../../lib/given.ts'
import { describeMetrics } from './openapi.ts'
import { metricsRoute } from './metrics-route.ts'
import type { App, Transport } from '../listener/app.ts'
import type { MetricsDependencies } from './dependencies.ts'

const DOCUMENT_PATH = '/docs/metrics.json'

/** Creates the API for readers of metrics on a transport, ready but not listening. */
export const createMetricsApp = (dependencies: MetricsDependencies, transport: Transport): Promise<App> =>
  createApp({
    transport,
    description: describeMetrics(dependencies.version),
    reference: DOCUMENT_PATH,
    schemas: metricsSchemas,
    peerField: 'reader',
    addRoutes(routes) {
      healthRoutes(routes, dependencies)
      metricsRoute(routes, 'Metrics', dependencies.metrics)
      referenceRoutes(routes, {
        documentPath: DOCUMENT_PATH,
        errorsMarkdown: dependencies.errorsMarkdown,
      })
    },
    ...given({ onAnswered: dependencies.onAnswered }),
    log: dependencies.log,
  })
