import { Type } from 'typebox'
import { METRICS_MEDIA_TYPE } from '../../owners/metrics/exposition.ts'
import { noQuery, problems, requestIdHeader } from '../listener/answers.ts'
import type { Metrics } from '../../owners/metrics/metrics.ts'
import type { App } from '../listener/app.ts'

/** The metrics of the daemon, as a route reads them. */
export type ReadableMetrics = Pick<Metrics, 'scrape'>

/** Serves the metrics of this host. */
export function metricsRoute(app: App, tag: string, metrics: ReadableMetrics): void {
  const schema = {
    operationId: 'getMetrics',
    tags: [tag],
    summary: 'Read the metrics',
    description:
      "Figures of the host, its VMs and the daemon in Prometheus' text format. A figure that is not known is absent. Answers " +
      'while the daemon is starting, too.',
    querystring: noQuery,
    produces: ['text/plain'],
    response: {
      200: {
        description: 'The metrics.',
        headers: requestIdHeader,
        content: { 'text/plain': { schema: Type.String() } },
      },
      ...problems(),
    },
  }
  app.get('/metrics', { schema }, async (_request, reply) => {
    reply.type(METRICS_MEDIA_TYPE)
    return metrics.scrape()
  })
}
