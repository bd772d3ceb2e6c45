import { SCRIPT_TYPE } from '../../listener/answers.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies, PageAsset } from '../dependencies.ts'

const TYPES: Readonly<Record<string, string>> = { js: SCRIPT_TYPE, css: 'text/css; charset=utf-8' }

/** Serves scripts and styles of a page below `/ui/`. */
export function servePageAssets(
  app: App,
  { readAsset }: Pick<ApiDependencies, 'readAsset'>,
  names: readonly PageAsset[],
): void {
  for (const name of names) {
    const type = TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream'
    app.get(`/ui/${name}`, { schema: { hide: true } }, async (_request, reply) => {
      reply.type(type).headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
      return Buffer.from(readAsset(name))
    })
  }
}
