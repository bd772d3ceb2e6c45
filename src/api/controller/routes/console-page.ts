import { Type } from 'typebox'
import { consolePage, consolePolicy } from '../console-document.ts'
import { problems } from './answers.ts'
import { SCRIPT_TYPE, securityHeaders, STYLE_TYPE } from './page-headers.ts'
import { params, tags } from './vm-parts.ts'
import type { App } from '../app.ts'
import type { ApiDependencies, PageAsset } from '../dependencies.ts'

/** Serves a terminal in the browser: the page and its files. The VM is looked up only when the page connects. */
export function consolePageRoutes(app: App, rooms: ApiDependencies): void {
  app.get(
    '/ui/console/:id',
    {
      schema: {
        operationId: 'getConsolePage',
        tags,
        summary: 'The console as a page',
        description:
          'A terminal on the serial console; with `?mode=ssh&user=NAME` on a shell over SSH. It reconnects by ' +
          'itself while the daemon restarts. It looks for the VM only when it connects, and says so if there is none.',
        produces: ['text/html'],
        params,
        response: {
          200: { description: 'A page.', content: { 'text/html': { schema: Type.String() } } },
          ...problems(),
        },
      },
    },
    async (_request, reply) => {
      reply.type('text/html; charset=utf-8').headers(securityHeaders(consolePolicy))
      return consolePage
    },
  )
  const assets: readonly (readonly [PageAsset, string])[] = [
    ['console.js', SCRIPT_TYPE],
    ['console.css', STYLE_TYPE],
  ]
  for (const [name, type] of assets) {
    app.get(`/ui/${name}`, { schema: { hide: true } }, async (_request, reply) => {
      reply.type(type).headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
      return Buffer.from(rooms.readAsset(name))
    })
  }
}
