import { rejections } from '../../core/problems/catalogue.ts'
import { PROBLEM_MEDIA_TYPE, problemOf } from '../wire/problem.ts'
import { newRequestId, requestIdOf } from './request-id.ts'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Rejection } from '../../core/errors.ts'
import type { Log } from '../../log/log.ts'
import type { Transport } from './app.ts'

/** Answers requests that are refused before routing, when no hook runs and no reply object exists. */
export function unroutedAnswers(transport: Transport, log: Log) {
  return {
    /** A path that is not validly percent-encoded. */
    badUrl(request: IncomingMessage, response: ServerResponse): void {
      const requestId = requestIdOf(request)
      const peer = transport.authorize(request)
      const problem = problemOf(peer.ok ? BAD_URL : peer.error, requestId)
      const { status, code } = problem
      log.info({ request_id: requestId, method: request.method, status, code }, 'request')
      response
        .writeHead(status, { 'content-type': PROBLEM_MEDIA_TYPE, 'x-request-id': requestId })
        .end(JSON.stringify(problem))
    },

    /** Bytes that are not an HTTP request, or did not come in time. */
    brokenRequest(error: NodeJS.ErrnoException, socket: Duplex): void {
      if (!socket.writable || error.code === 'ECONNRESET') {
        socket.destroy()
        return
      }
      const rejection = BROKEN_REQUESTS.get(error.code) ?? NOT_HTTP
      const { status } = rejections[rejection.code]
      const requestId = newRequestId()
      log.info(
        { request_id: requestId, status, code: rejection.code, reason: error.code },
        'malformed request received',
      )
      socket.end(rawResponse(status, requestId, JSON.stringify(problemOf(rejection, requestId))))
    },
  }
}

const BAD_URL: Rejection = { code: 'invalid_request', detail: 'the path is not validly percent-encoded' }
const NOT_HTTP: Rejection = { code: 'invalid_request', detail: 'this is not an HTTP/1.1 request' }

/** Rejections by the codes of node:http's parser and server. */
const BROKEN_REQUESTS: ReadonlyMap<string | undefined, Rejection> = new Map([
  [
    'HPE_HEADER_OVERFLOW',
    { code: 'headers_too_large', detail: 'request line and headers have at most 16 KiB together' },
  ],
  ['ERR_HTTP_REQUEST_TIMEOUT', { code: 'request_timeout', detail: 'send the whole request at once' }],
])

const rawResponse = (status: number, requestId: string, body: string): string =>
  [
    `HTTP/1.1 ${status} `,
    `content-type: ${PROBLEM_MEDIA_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    'connection: close',
    '',
    body,
  ].join('\r\n')
