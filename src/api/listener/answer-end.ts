import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from './app.ts'

/** The end of an answer. `sent`: all of it. `cut`: a part, because the connection ended. `none`: nothing of it. */
export type AnswerEnd = 'sent' | 'cut' | 'none'

/** The status of a request whose client left before its answer began, as nginx logs it. No client gets it. */
export const CLIENT_LEFT = 499

/**
 * Calls back once for each request, when its answer is sent or its connection has ended. Fastify's `onResponse` says
 * nothing of requests whose client left. A connection that became a WebSocket has no answer.
 */
export function onAnswerEnd(
  app: App,
  listener: (request: FastifyRequest, reply: FastifyReply, end: AnswerEnd) => void,
): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = reply
    raw.once('close', () => {
      if (raw.writableFinished) listener(request, reply, 'sent')
      else if (!request.ws) listener(request, reply, raw.headersSent ? 'cut' : 'none')
    })
    done()
  })
}
