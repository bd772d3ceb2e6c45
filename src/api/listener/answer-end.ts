import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from './app.ts'

/** The end of an answer. */
export type AnswerEnd = {
  /** `sent`: all of it. `cut`: not all of it, because the connection ended. `none`: it had not begun then. */
  readonly how: 'sent' | 'cut' | 'none'
  /** Milliseconds since the request came. */
  readonly ms: number
}

/** The status of a request whose client left before its answer began, as nginx logs it. No client gets it. */
export const CLIENT_LEFT = 499

/** Requests whose connection is a WebSocket now. */
const upgraded = new WeakSet<FastifyRequest>()

/** Notes that the connection of a request has become a WebSocket, and so has no answer. */
export const noteUpgraded = (request: FastifyRequest): void => void upgraded.add(request)

/**
 * Calls back once for each request, when its answer is sent or its connection has ended. Fastify's `onResponse` says
 * nothing of requests whose client left.
 */
export function onAnswerEnd(
  app: App,
  listener: (request: FastifyRequest, reply: FastifyReply, end: AnswerEnd) => void,
): void {
  app.addHook('onRequest', (request, reply, done) => {
    const beganMs = performance.now()
    const { raw } = reply
    raw.once('close', () => {
      if (upgraded.has(request)) return
      const how = raw.writableFinished ? 'sent' : raw.headersSent ? 'cut' : 'none'
      listener(request, reply, { how, ms: performance.now() - beganMs })
    })
    done()
  })
}
