import { Type } from 'typebox'
import { docsPage, docsPolicy, docsScript, errorsPage, errorsPolicy } from '../docs-pages.ts'
import { pageHeaders, problems, SCRIPT_TYPE } from '../../listener/answers.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

const tags = ['Documentation']

/** Serves the reference of this API, complete and offline: page, script, OpenAPI document and the error codes. */
export function docsRoutes(app: App, dependencies: ApiDependencies): void {
  const page = (operationId: string, summary: string) => ({
    schema: {
      operationId,
      tags,
      summary,
      produces: ['text/html'],
      response: {
        200: { description: 'A page.', content: { 'text/html': { schema: Type.String() } } },
        ...problems(),
      },
    },
  })
  app.get('/docs', page('getDocs', 'This reference'), async (_request, reply) => {
    reply.type('text/html; charset=utf-8').headers(pageHeaders(docsPolicy))
    return docsPage
  })
  app.get('/docs/errors', page('getErrorCodes', 'All error codes'), async (_request, reply) => {
    reply.type('text/html; charset=utf-8').headers(pageHeaders(errorsPolicy))
    return errorsPage(Buffer.from(dependencies.readAsset('errors.md')).toString())
  })
  app.get('/docs/scalar.js', { schema: { hide: true } }, async (_request, reply) => {
    reply
      .type(SCRIPT_TYPE)
      .headers({ 'cache-control': 'private, max-age=3600', 'x-content-type-options': 'nosniff' })
    return Buffer.from(dependencies.readAsset('scalar.js'))
  })
  app.get('/docs/start.js', { schema: { hide: true } }, async (_request, reply) => {
    reply.type(SCRIPT_TYPE).headers({ 'x-content-type-options': 'nosniff' })
    return docsScript
  })
  app.get(
    '/docs/swagger.json',
    {
      schema: {
        operationId: 'getOpenApi',
        tags,
        summary: 'The OpenAPI document',
        description: 'OpenAPI 3.1, made from the schemas that validate requests and shape responses.',
        response: {
          200: {
            description: 'The document.',
            content: { 'application/json': { schema: { type: 'object', additionalProperties: true } } },
          },
          ...problems(),
        },
      },
    },
    async () => ({ ...app.swagger() }),
  )
}
