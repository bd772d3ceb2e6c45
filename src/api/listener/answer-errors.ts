import { Readable } from 'node:stream'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import {
  PROBLEM_MEDIA_TYPE,
  problemHeaders,
  problemOf,
  problemOfFault,
  problemOfUnknown,
} from '../wire/problem.ts'
import { auditUnrouted } from './audit.ts'
import { opensPage, problemPage, problemPageHeaders } from './problem-page.ts'
import { Refused, Undecided } from './refused.ts'
import { newRequestId, requestIdOf } from './request-id.ts'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { FastifyError, FastifyRequest } from 'fastify'
import type { Rejection } from '../../core/errors.ts'
import type { Log } from '../../log/log.ts'
import type { Problem } from '../wire/problem.ts'
import type { Pages } from './problem-page.ts'
import type { App, Transport } from './app.ts'

/**
 * Makes every error an `application/problem+json` answer, or a page if a browser opened one of `pages`. An unexpected
 * error is logged and answered as `internal`.
 */
export function answerErrors(app: App, log: Log, pages?: Pages): void {
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    const problem = problemFor(error, request)
    if (problem.code === 'internal') {
      log.error(
        { request_id: request.id, route: request.routeOptions.url, error },
        'request failed: internal error',
      )
    }
    request.problemCode = problem.code
    if (error instanceof HostFault) request.hostFault = error
    if (error instanceof Undecided) request.hostFault = error.message
    if (error instanceof Refused) reply.headers(error.headers)
    // This connection was meant to be upgraded and takes no further HTTP request.
    if (request.ws) reply.header('connection', 'close')
    reply.code(problem.status).headers(problemHeaders(problem))
    if (pages !== undefined && opensPage(request.raw, pages)) {
      reply.headers(problemPageHeaders)
      return reply.send(problemPage(problem, pages))
    }
    reply.type(PROBLEM_MEDIA_TYPE)
    if (problem.code !== 'body_too_large') return reply.serializer(JSON.stringify).send(problem)
    const answer = JSON.stringify(problem)
    return reply
      .headers({ connection: 'close', 'content-length': Buffer.byteLength(answer) })
      .send(answerBeforeBodyEnds(request.raw, answer))
  })
}

function problemFor(error: FastifyError, { id, server }: FastifyRequest): Problem {
  if (error instanceof Refused) return problemOf(error.rejection, id)
  if (error instanceof Undecided) return problemOfUnknown(error.unknown, id)
  if (error instanceof HostFault) return problemOfFault(error, id)
  return problemOf(rejectionOf(error, server.initialConfig.bodyLimit ?? limits.bodyBytesMax), id)
}

const sizeWords = (bytes: number): string =>
  bytes < 1024 * 1024 ? `${bytes / 1024} KiB` : `${bytes / 1024 / 1024} MiB`

/** Returns refusals of the framework itself, by its codes (fastify.dev, "Errors"). */
function rejectionOf(error: FastifyError, bodyBytesMax: number): Rejection {
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return { code: 'unsupported_media_type', detail: 'send the body as application/json' }
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return { code: 'body_too_large', detail: `a request body has at most ${sizeWords(bodyBytesMax)}` }
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return { code: 'invalid_request', detail: 'the body is not as long as Content-Length says' }
    case 'ECONNRESET':
      return { code: 'invalid_request', detail: 'the connection ended before the body did' }
    default:
      return {
        code: 'internal',
        detail: 'this is a bug in vmhostd; its log has the details under the request id',
      }
  }
}

/**
 * Returns an answer that is sent at once and ends when the rest of its request's body has been read and thrown away.
 * Many clients read nothing before they have written everything. If the connection ends while bytes of theirs are
 * unread, the kernel resets it, and the answer is lost (RFC 9112, 9.6). Bytes and time are bounded; at a bound, the
 * connection is closed.
 */
const answerBeforeBodyEnds = (request: IncomingMessage, answer: string): Readable =>
  Readable.from(
    (async function* () {
      yield Buffer.from(answer)
      await discarded(request)
    })(),
  )

/** Resolves when the body has ended, its connection is gone, or one of the bounds is reached. */
async function discarded(request: IncomingMessage): Promise<void> {
  if (request.complete || request.destroyed) return
  const { promise, resolve } = Promise.withResolvers<void>()
  let bytes = 0
  const count = (chunk: Buffer): void => {
    bytes += chunk.length
    if (bytes > limits.refusedBodyBytesMax) resolve()
  }
  const deadline = setTimeout(resolve, limits.refusedBodyMs)
  request.on('data', count).once('end', resolve).once('close', resolve).resume()
  await promise
  clearTimeout(deadline)
  request.off('data', count).pause()
}

/** Answers requests that are refused before routing, when no hook runs and no reply object exists. */
export function unroutedAnswers(transport: Transport, log: Log, pages?: Pages) {
  const refuse = (request: IncomingMessage, response: ServerResponse, rejection: Rejection): void => {
    const requestId = requestIdOf(request)
    const peer = transport.authorize(request)
    const problem = problemOf(peer.ok ? rejection : peer.error, requestId)
    const { status, code } = problem
    log.info({ request_id: requestId, method: request.method, status, code }, 'request')
    auditUnrouted(log, transport, request, problem)
    const headers = { 'x-request-id': requestId, ...problemHeaders(problem) }
    if (pages !== undefined && opensPage(request, pages))
      response.writeHead(status, { ...headers, ...problemPageHeaders }).end(problemPage(problem, pages))
    else
      response
        .writeHead(status, { ...headers, 'content-type': PROBLEM_MEDIA_TYPE })
        .end(JSON.stringify(problem))
  }
  return {
    /** Refuses a peer that may not use the API as such, and any other with this rejection. */
    refuse,

    /** A path that is not validly percent-encoded. */
    badUrl: (request: IncomingMessage, response: ServerResponse): void => refuse(request, response, BAD_URL),

    /** Bytes that are not an HTTP request, or did not come in time. */
    brokenRequest(error: NodeJS.ErrnoException, socket: Duplex): void {
      if (!socket.writable || error.code === 'ECONNRESET') {
        socket.destroy()
        return
      }
      const rejection = BROKEN_REQUESTS.get(error.code) ?? NOT_HTTP
      const requestId = newRequestId()
      const problem = problemOf(rejection, requestId)
      const { status } = problem
      log.info(
        { request_id: requestId, status, code: rejection.code, reason: error.code },
        'malformed request received',
      )
      socket.end(rawResponse(problem))
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

function rawResponse(problem: Problem): string {
  const body = JSON.stringify(problem)
  return [
    `HTTP/1.1 ${problem.status} `,
    `content-type: ${PROBLEM_MEDIA_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${problem.request_id}`,
    ...Object.entries(problemHeaders(problem)).map(([name, value]) => `${name}: ${value}`),
    'connection: close',
    '',
    body,
  ].join('\r\n')
}
