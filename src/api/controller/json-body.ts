import { Refused } from './refused.ts'
import type { FastifyRequest } from 'fastify'
import type { App } from './app.ts'

/**
 * Accepts bodies in JSON and UTF-8 only. Refuses a wrong byte or half a surrogate pair instead of replacing it: the
 * daemon stores exactly what was sent. Drops JSON.parse's own message, because it quotes the body.
 */
export function parseJsonBodies(app: App): void {
  const utf8 = new TextDecoder('utf-8', { fatal: true })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, body: Buffer): Promise<unknown> => {
      const encoding = request.headers['content-encoding'] ?? 'identity'
      if (encoding !== 'identity') {
        throw new Refused({
          code: 'unsupported_media_type',
          detail: 'send the body without a content encoding',
        })
      }
      if (body.length === 0) return undefined
      try {
        return JSON.parse(utf8.decode(body))
      } catch {
        throw new Refused({ code: 'invalid_request', detail: 'the body is not valid JSON in UTF-8' })
      }
    },
  )
}
