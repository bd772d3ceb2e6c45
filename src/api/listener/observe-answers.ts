import type { App } from './app.ts'

/** One answer. `route` is the template of its route; undefined if there is no such route. */
export type AnswerSeen = {
  readonly method: string
  readonly route: string | undefined
  readonly status: number
  readonly ms: number
}

export type AnswerObserver = (answer: AnswerSeen) => void

/** Calls the observer after each answer, with nothing that the client chose but the method. */
export function observeAnswers(app: App, observer: AnswerObserver): void {
  app.addHook('onResponse', (request, reply, done) => {
    observer({
      method: request.method,
      route: request.is404 ? undefined : request.routeOptions.url,
      status: reply.statusCode,
      ms: reply.elapsedTime,
    })
    done()
  })
}
