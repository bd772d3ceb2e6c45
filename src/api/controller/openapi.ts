import swagger from '@fastify/swagger'
import type { App } from './app.ts'

const DESCRIPTION = `Runs microVMs on one host.

**Every mutation stores what is desired and answers at once.** The host follows by itself. A VM nests two objects,
\`desired\` and \`observed\`; poll \`GET /v1/vms/{id}\` until \`generations.desired\` and \`generations.observed\` are equal. When
they stop moving apart, \`observed.error\` says why; the daemon keeps trying.

A mutation that changes something answers 202 and raises the desired generation; one that changes nothing answers 200.
Repeating any request is safe. Send \`If-Match\` with the \`ETag\` of an earlier answer to change only what you have seen.

Errors are \`application/problem+json\`; decide on \`code\`, and see [all codes](/docs/errors). Unknown members, wrong types and
unknown query parameters are refused. Bodies have at most 1 MiB. Times are RFC 3339 in UTC.

Every request needs the controller's client certificate.`

/** OpenAPI 3.1 has this kind (spec.openapis.org, "Security Scheme Object"); the types of the plugin do not. */
const mutualTls = {
  type: 'mutualTLS',
  description: "A client certificate with the controller's common name.",
} as never

/** Collects the routes that are made afterwards into an OpenAPI 3.1 document. */
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
        { name: 'Health', description: 'Of the daemon itself.' },
        { name: 'Documentation', description: 'Of this API.' },
      ],
      components: {
        securitySchemes: {
          controllerCertificate: mutualTls,
        },
      },
      security: [{ controllerCertificate: [] }],
    },
    refResolver: {
      buildLocalReference: (json, _uri, _fragment, index) =>
        typeof json['$id'] === 'string' ? json['$id'] : `Schema${index}`,
    },
  })
}
