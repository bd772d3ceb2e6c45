import { docsPage, docsPolicy, docsScript } from '../docs-page.ts'
import { pageHeaders, SCRIPT_TYPE } from '../../listener/answers.ts'
import { pageSchema, referenceRoutes } from '../../listener/reference.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves the reference of this API, complete and offline: page, script, OpenAPI document and the error codes. */
export function docsRoutes(app: App, { readAsset }: ApiDependencies): void {
  const schema = pageSchema('getDocs', 'This reference')
  app.get('/docs', { schema }, async (_request, reply) => {
    reply.type('text/html; charset=utf-8').headers(pageHeaders(docsPolicy))
    return docsPage
  })
  app.get('/docs/scalar.js', { schema: { hide: true } }, async (_request, reply) => {
    reply
      .type(SCRIPT_TYPE)
      .headers({ 'cache-control': 'private, max-age=3600', 'x-content-type-options': 'nosniff' })
    return Buffer.from(readAsset('scalar.js'))
  })
  app.get('/docs/start.js', { schema: { hide: true } }, async (_request, reply) => {
    reply.type(SCRIPT_TYPE).headers({ 'x-content-type-options': 'nosniff' })
    return docsScript
  })
  referenceRoutes(app, {
    documentPath: '/docs/swagger.json',
    errorsMarkdown: () => readAsset('errors.md'),
  })
}
