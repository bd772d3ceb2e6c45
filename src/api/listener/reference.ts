import { Type } from 'typebox'
import { problems, requestIdHeader } from './answers.ts'
import { errorsPage, errorsPageHeaders } from './errors-page.ts'
import type { App } from './app.ts'

/** Tag of the routes that describe an API. */
const referenceTags = ['Documentation']

/** The answer that is a page. */
export const pageAnswer = {
  description: 'A page.',
  headers: requestIdHeader,
  content: { 'text/html': { schema: Type.String() } },
}

/** Describes a route that answers a page. */
export const pageSchema = (operationId: string, summary: string) => ({
  operationId,
  tags: referenceTags,
  summary,
  produces: ['text/html'],
  response: {
    200: pageAnswer,
    ...problems(),
  },
})

export type ReferenceOptions = {
  /** Where the OpenAPI document of this API is. */
  readonly documentPath: string
  /** The text of `docs/errors.md`. */
  readonly errorsMarkdown: () => Uint8Array
}

/**
 * Serves what every API says of itself: its OpenAPI document, and the error codes that the type of a problem links to.
 */
export function referenceRoutes(app: App, { documentPath, errorsMarkdown }: ReferenceOptions): void {
  const schema = pageSchema('getErrorCodes', 'All error codes')
  app.get('/docs/errors', { schema }, async (_request, reply) => {
    reply.type('text/html; charset=utf-8').headers(errorsPageHeaders)
    return errorsPage(Buffer.from(errorsMarkdown()).toString())
  })
  app.get(
    documentPath,
    {
      schema: {
        operationId: 'getOpenApi',
        tags: referenceTags,
        summary: 'The OpenAPI document',
        description: 'OpenAPI 3.1, made from the schemas that validate requests and shape responses.',
        response: {
          200: {
            description: 'The document.',
            headers: requestIdHeader,
            content: { 'application/json': { schema: { type: 'object', additionalProperties: true } } },
          },
          ...problems(),
        },
      },
    },
    async () => ({ ...app.swagger() }),
  )
}
