import { Refused } from './refused.ts'
import type { FastifyReply } from 'fastify'

/**
 * Returns a signal that aborts when the client of an answer goes away. `request.signal` does not do so for a request whose body was
 * read. The reason is a refusal, so that the request is logged like any other, and not as a mistake of the daemon.
 */
export function goneSignal({ raw: response }: Pick<FastifyReply, 'raw'>): AbortSignal {
  const gone = new AbortController()
  const detail = 'the connection ended before the answer was ready'
  response.once('close', () => gone.abort(new Refused({ code: 'invalid_request', detail })))
  return gone.signal
}
