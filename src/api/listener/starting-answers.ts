import { unroutedAnswers } from './answer-errors.ts'
import { aliveAnswer } from './health.ts'
import { refuseMalformed } from './refuse-malformed.ts'
import { STORE_NOT_OPEN } from './refused.ts'
import { requestIdOf } from './request-id.ts'
import { JSON_MEDIA_TYPE } from './answers.ts'
import type { RequestListener } from 'node:http'
import type { Log } from '../../log/log.ts'
import type { Pages } from './problem-page.ts'
import type { Transport } from './app.ts'

type StartingOptions = {
  readonly transport: Transport
  /** The version of this build. */
  readonly version: string
  readonly pages?: Pages
  readonly log: Log
}

/**
 * Returns the answers of a listener that has no API yet: that it is alive, and 503 `starting_up` to everything else.
 */
export function answerWhileStarting({ transport, version, pages, log }: StartingOptions): RequestListener {
  const unrouted = unroutedAnswers(transport, log, pages)
  return (request, response) => {
    const [path] = (request.url ?? '').split('?', 1)
    const asksForLife = path === '/healthz' && ['GET', 'HEAD'].includes(request.method ?? '')
    const malformed = refuseMalformed(request)
    if (!asksForLife || malformed !== undefined || !transport.authorize(request).ok) {
      unrouted.refuse(request, response, malformed ?? STORE_NOT_OPEN)
      return
    }
    response
      .writeHead(200, {
        'content-type': JSON_MEDIA_TYPE,
        'x-request-id': requestIdOf(request),
      })
      .end(JSON.stringify(aliveAnswer(version)))
  }
}
