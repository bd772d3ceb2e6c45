import { err, ok } from '../../lib/result.ts'
import { startListener } from '../listener/listener.ts'
import { peerCertificate } from '../listener/peer-chain.ts'
import { createApp } from '../listener/create-app.ts'
import { healthRoutes } from '../listener/health.ts'
import { referenceRoutes } from '../listener/reference.ts'
import { metricsSchemas } from '../wire/named.ts'
import { given } from '../../lib/given.ts'
import { metricsRoute } from './metrics-route.ts'
import type { Log } from '../../log/log.ts'
import type { ServedApi, Listener, ListenerPlace } from '../listener/listener.ts'
import type { Health } from '../listener/health.ts'
import type { AnswerObserver } from '../listener/answer-end.ts'
import type { ReadableMetrics } from './metrics-route.ts'
import type { Admit } from '../listener/transports.ts'
import type { App, Transport } from '../listener/app.ts'
import type { ApiDescription } from '../listener/openapi.ts'

/** Everything that the listener for metrics needs from the rest of the daemon. */
export type MetricsDependencies = Health & {
  readonly metrics: ReadableMetrics
  readonly onAnswered?: AnswerObserver
  /** Called for each connection of a reader. `isRevoked` says whether its certificate is revoked by now. */
  readonly onReader?: NonNullable<ServedApi['onConnection']>
  /** The text of `docs/errors.md`. */
  readonly errorsMarkdown: () => Uint8Array
  readonly log: Log
}

type MetricsApiOptions = ListenerPlace & {
  readonly dependencies: MetricsDependencies
  /** The common names that may read. */
  readonly commonNames: readonly string[]
}

/** Serves metrics. Throws TlsFilesUnusable, or the error of listen(2). */
export function createMetricsApi(options: MetricsApiOptions): Promise<Listener> {
  const { dependencies, commonNames, ...place } = options
  return startListener({
    ...place,
    createApp: (transport) => createMetricsApp(dependencies, transport),
    admit: admitReader(commonNames),
    beginsUpgrade: () => false,
    onConnection: (socket, isRevoked) => {
      const { certificate_name: name = '' } = peerCertificate(socket)
      if (commonNames.includes(name)) dependencies.onReader?.(socket, isRevoked)
    },
    version: dependencies.version,
    log: dependencies.log,
  })
}

/** Admits a peer whose certificate has one of these names. */
const admitReader =
  (commonNames: readonly string[]): Admit =>
  (name) =>
    name !== undefined && commonNames.includes(name)
      ? ok(name)
      : err({
          code: 'forbidden',
          detail: 'the client certificate does not have a common name that may read metrics',
        })

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

const DESCRIPTION = `Monitoring reads the figures of this host. Nothing can be changed here.

Errors are \`application/problem+json\`; decide on \`code\`, and see [all codes](/docs/errors). Unknown query parameters are refused.`

/** Returns the parts of the OpenAPI document that routes do not have. */
const describeMetrics = (version: string): ApiDescription => ({
  title: 'vmhostd metrics',
  version,
  text: DESCRIPTION,
  tags: [
    { name: 'Metrics', description: "Figures in Prometheus' text format." },
    { name: 'Health', description: 'The health of the daemon itself.' },
    { name: 'Documentation', description: 'The documentation of this API.' },
  ],
  certificate: 'A client certificate with one of the names in `metrics.common_names` of the configuration.',
})
