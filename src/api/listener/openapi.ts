import swagger from '@fastify/swagger'
import { problemHead, exampleOf } from '../wire/problem.ts'
import { EXAMPLES_PATH } from './answers.ts'
import type { ProblemCode } from '../../core/errors.ts'
import type { App } from './app.ts'

/** The parts of the OpenAPI document that routes do not have. */
export type ApiDescription = {
  readonly title: string
  /** The version of this build. */
  readonly version: string
  /** Markdown. */
  readonly text: string
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  /** The client certificate that the API needs, in words. */
  readonly certificate: string
}

/** Collects the routes that are added after this call into an OpenAPI 3.1 document. */
export async function describeApi(app: App, about: ApiDescription): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: about.title,
        version: about.version,
        description: about.text,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      tags: [...about.tags],
      components: {
        // A scheme of OpenAPI 3.1 (spec.openapis.org, "Security Scheme Object") that the types of the plugin lack.
        securitySchemes: { mTLS: { type: 'mutualTLS', description: about.certificate } as never },
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
