import { CLIENT_LEFT, onAnswerEnd } from './answer-end.ts'
import type { App } from './app.ts'

/** One answer. `route` is the template of its route; undefined if there is no such route. */
export type AnswerSeen = {
  readonly method: string
  readonly route: string | undefined
  readonly status: number
  readonly ms: number
}

export type AnswerObserver = (answer: AnswerSeen) => void

/**
 * Calls the observer after each answer, with nothing that the client chose but the method. A client that did not wait for
 * its answer counts, because the answer may have been slow. An answer that was cut has no duration of its own: most of
 * these are streams without an end.
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
