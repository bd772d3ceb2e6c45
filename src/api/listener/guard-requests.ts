import { Refused } from './refused.ts'
import type { App, Transport } from './app.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The common name of the client's certificate. */
    peerName: string
  }
}

/**
 * Runs before every route, in this order: the request id, the peer's name, and whether the route and its method exist.
 * A request that fails here is answered before its body is read. `reference` is the path that lists all routes.
 */
export function guardRequests(app: App, transport: Transport, reference: string): void {
  app.decorateRequest('peerName', '')
  const routes: { readonly matches: RegExp; readonly method: string }[] = []
  app.addHook('onRoute', ({ url, method }) => {
    const matches = new RegExp(`^${url.replaceAll(/:[a-z]+/g, '[^/]+').replaceAll('.', '\\.')}$`)
    for (const one of [method].flat()) routes.push({ matches, method: one })
  })
  const methodsAt = (path: string): string[] => [
    ...new Set(routes.filter((route) => route.matches.test(path)).map(({ method }) => method)),
  ]

  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
    const peer = transport.authorize(request.raw)
    if (!peer.ok) throw new Refused(peer.error)
    request.peerName = peer.value
    if (!request.is404) return
    const [path = ''] = (request.raw.url ?? '').split('?', 1)
    const allowed = methodsAt(path).toSorted()
    if (allowed.length === 0)
      throw new Refused({ code: 'not_found', detail: `there is no such route; see ${reference}` })
    throw new Refused(
      { code: 'method_not_allowed', detail: `this route takes ${allowed.join(', ')}` },
      { allow: allowed.join(', ') },
    )
  })
}
