import type { ApiDescription } from '../listener/openapi.ts'

const DESCRIPTION = `Monitoring reads the figures of this host. Nothing can be changed here.

Errors are \`application/problem+json\`; decide on \`code\`, and see [all codes](/docs/errors). Unknown query parameters are refused.`

/** Returns the parts of the OpenAPI document that routes do not have. */
export const describeMetrics = (version: string): ApiDescription => ({
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
