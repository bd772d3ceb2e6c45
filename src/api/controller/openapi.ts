import swagger from '@fastify/swagger'
import { problemHead } from '../wire/problem.ts'
import { exampleOf } from '../wire/problem-examples.ts'
import { EXAMPLES_PATH } from './routes/answers.ts'
import { SNAPSHOTS_DESCRIPTION } from './routes/snapshot-parts.ts'
import type { ProblemCode } from '../../core/errors.ts'
import type { App } from './app.ts'

const DESCRIPTION = `Runs microVMs on one host.

**Every mutation stores what is desired and answers at once.** The host follows by itself. A VM nests two objects,
\`desired\` and \`observed\`; poll \`GET /v1/vms/{id}\` until \`generations.desired\` and \`generations.observed\` are equal. If
\`observed\` stays behind, \`observed.error\` says why; the daemon keeps trying.

A mutation that changes something answers 202 and raises the desired generation; one that changes nothing answers 200.
Repeating any request is safe. Send \`If-Match\` with the \`ETag\` of an earlier answer to change only what you have seen, and
\`?dry_run=true\` to learn what a mutation would do. \`If-None-Match\` with \`Prefer: wait=N\` makes reading a VM or a
snapshot a long poll.

Errors are \`application/problem+json\`; decide on \`code\`, and see [all codes](/docs/errors). Unknown members, wrong types and
unknown query parameters are refused. Bodies have at most 1 MiB. Times are RFC 3339 in UTC.

Every request needs the controller's client certificate.`

/** A security scheme of OpenAPI 3.1 (spec.openapis.org, "Security Scheme Object") that the types of the plugin lack. */
const mutualTls = {
  type: 'mutualTLS',
  description: "A client certificate with the controller's common name.",
} as never

/** Collects the routes that are added after this call into an OpenAPI 3.1 document. */
export async function describeApi(app: App, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'vmhostd',
        version,
        description: DESCRIPTION,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      tags: [
        { name: 'VMs', description: 'Virtual machines.' },
        { name: 'Snapshots', description: SNAPSHOTS_DESCRIPTION },
        {
          name: 'Images',
          description: 'The images of VMs. The host fetches them into the pool when a VM needs them.',
        },
        { name: 'Host', description: 'The host as a whole.' },
        { name: 'Health', description: 'The health of the daemon itself.' },
        { name: 'Documentation', description: 'The documentation of this API.' },
      ],
      components: {
        securitySchemes: {
          mTLS: mutualTls,
        },
      },
      security: [{ mTLS: [] }],
    },
    transformObject: (made) => {
      if (!('openapiObject' in made)) return made.swaggerObject
      const { openapiObject } = made
      openapiObject.components = { ...openapiObject.components, examples: problemExamples(openapiObject) }
      return openapiObject
    },
    refResolver: {
      buildLocalReference: (json, _uri, _fragment, index) =>
        typeof json['$id'] === 'string' ? json['$id'] : `Schema${index}`,
    },
  })
}

/** Returns an example for each problem that a route says it can answer. */
function problemExamples(document: object): Record<string, object> {
  const used = JSON.stringify(document).matchAll(new RegExp(`"${EXAMPLES_PATH}(\\w+)"`, 'g'))
  const codes = [...new Set(Array.from(used, ([, code]) => code as ProblemCode))].toSorted()
  return Object.fromEntries(
    codes.map((code) => [code, { summary: problemHead(code).title, value: exampleOf(code) }]),
  )
}
