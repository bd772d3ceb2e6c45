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

/**
 * Content security policy of the reference. Everything comes from this listener, and only our own script files run.
 * Inline styles are allowed: Scalar makes them as it renders, without a nonce.
 */
const docsPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'unsafe-inline'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const docsPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>vmhostd API</title>
</head>
<body>
<div id="app"></div>
<script src="/docs/scalar.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`

/** Starts Scalar with every feature off that would connect to another server. */
const docsScript = `Scalar.createApiReference('#app', {
  url: '/docs/swagger.json',
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: 'never',
  telemetry: false,
  withDefaultFonts: false,
  persistAuth: false,
  hideClientButton: true,
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  documentDownloadType: 'json',
  defaultOpenAllTags: true,
  orderSchemaPropertiesBy: 'preserve',
})
`
