import { Refused } from './refused.ts'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from './app.ts'

/** The end of an answer. */
type AnswerEnd = {
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

/**
 * Returns a signal that aborts when the client of an answer goes away. `request.signal` does not do so for a request
 * whose body was read. The reason is a refusal, so that the request is logged like any other,
 * and not as a mistake of the daemon.
 */
export function goneSignal({ raw: response }: Pick<FastifyReply, 'raw'>): AbortSignal {
  const gone = new AbortController()
  const detail = 'the connection ended before the answer was ready'
  response.once('close', () => gone.abort(new Refused({ code: 'invalid_request', detail })))
  return gone.signal
}

/** One answer. `route` is the template of its route; undefined if there is no such route. */
export type AnswerSeen = {
  readonly method: string
  readonly route: string | undefined
  readonly status: number
  readonly ms: number
}

export type AnswerObserver = (answer: AnswerSeen) => void

/**
 * Calls the observer after each answer, with nothing that the client chose but the method. A client that did not wait
 * for its answer counts, because the answer may have been slow. An answer that was cut has no duration of its own: most
 * of these are streams without an end.
 */
export function observeAnswers(app: App, observer: AnswerObserver): void {
  onAnswerEnd(app, (request, reply, { how, ms }) => {
    if (how === 'cut') return
    observer({
      method: request.method,
      route: request.is404 ? undefined : request.routeOptions.url,
      status: how === 'none' ? CLIENT_LEFT : reply.statusCode,
      ms,
    })
  })
}
