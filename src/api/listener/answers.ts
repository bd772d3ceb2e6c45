import { createHash } from 'node:crypto'
import { Type } from 'typebox'
import { closed } from '../../lib/schema-check.ts'
import { mayRetry, PROBLEM_MEDIA_TYPE, problemHead } from '../wire/problem.ts'
import type { ProblemCode } from '../../core/errors.ts'

/** The media type of an answer that is text already: the one that Fastify gives to the others. */
export const JSON_MEDIA_TYPE = 'application/json; charset=utf-8'

export const requestIdHeader = {
  'X-Request-Id': {
    type: 'string',
    description: 'The id in the request if that is well formed, otherwise a new one.',
  },
}

/** The header of a 202: where to watch what the host does. */
export const locationHeader = {
  Location: { type: 'string', description: 'Path of the resource to watch until the host is as desired.' },
}

const retryAfterHeader = {
  'Retry-After': {
    type: 'integer',
    description: 'If `retryable` is true: seconds after which the client should try again.',
  },
}

/** The headers of a refusal that asks for a WebSocket (RFC 6455, section 4.4). */
const upgradeHeaders = {
  Upgrade: { type: 'string', description: 'The protocol to upgrade to: `websocket`.' },
  'Sec-WebSocket-Version': { type: 'string', description: 'The version of WebSocket that is spoken here.' },
}

/** The answer to the deletion of what is gone, or never was. */
export const goneAnswer = (what: string) => ({
  type: 'null',
  description: `There is no such ${what}: nothing is left to delete.`,
  headers: requestIdHeader,
})

/** Query of a route that takes none. */
export const noQuery = Type.Object({}, closed)

/**
 * Problems that any route can answer. 408 and 431 come from the listener, before routing, and so does `starting_up`
 * while there are no routes.
 */
const COMMON = [
  'invalid_request',
  'forbidden',
  'request_timeout',
  'headers_too_large',
  'internal',
  'starting_up',
] as const

/** Path of the examples in the OpenAPI document. */
export const EXAMPLES_PATH = '#/components/examples/'

/** Returns the error answers of a route by status, for its description; each code refers to the example of its name. */
export function problems(...codes: readonly ProblemCode[]): Record<number, object> {
  const all: ProblemCode[] = [...new Set([...COMMON, ...codes])]
  const byStatus = Map.groupBy(all, (code) => problemHead(code).status)
  return Object.fromEntries([...byStatus].map(([status, here]) => [status, problemAnswer(here)]))
}

/** Refusals of a request that has a body. */
export const BODY_CODES = ['body_too_large', 'unsupported_media_type'] as const

/** The form of a refusal for a browser that opens a page. */
const AS_PAGE = { 'text/html': { schema: Type.String() } }

/** Describes error answers that a browser gets as pages. */
export const asPages = (answers: Readonly<Record<number, object>>): Record<number, object> =>
  Object.fromEntries(
    Object.entries<ProblemAnswer>(answers).map(([status, answer]) => [
      status,
      { ...answer, content: { ...answer.content, ...AS_PAGE } },
    ]),
  )

type ProblemAnswer = { readonly content?: { readonly [PROBLEM_MEDIA_TYPE]?: { readonly examples?: object } } }

/** Adds a problem to the answers that {@link problems} made. */
export function addProblem(
  answers: Readonly<Record<number, object>>,
  code: ProblemCode,
): Record<number, object> {
  const { status } = problemHead(code)
  const there: ProblemAnswer = answers[status] ?? {}
  const codes = Object.keys(there.content?.[PROBLEM_MEDIA_TYPE]?.examples ?? {}) as ProblemCode[]
  const added = { [status]: problemAnswer([...codes, code]) }
  return { ...answers, ...('text/html' in (there.content ?? {}) ? asPages(added) : added) }
}

function problemAnswer(codes: readonly ProblemCode[]): object {
  const examples = codes.map((code) => [code, { $ref: `${EXAMPLES_PATH}${code}` }])
  return {
    description: codes.map((code) => `\`${code}\`: ${problemHead(code).title}.`).join('\n\n'),
    headers: {
      ...requestIdHeader,
      ...(codes.some(mayRetry) ? retryAfterHeader : {}),
      ...(codes.includes('upgrade_required') ? upgradeHeaders : {}),
    },
    content: {
      [PROBLEM_MEDIA_TYPE]: { schema: { $ref: 'Problem#' }, examples: Object.fromEntries(examples) },
    },
  }
}

export const SCRIPT_TYPE = 'text/javascript; charset=utf-8'

/** Returns the headers of a page without scripts, whose only style is this one. */
export const scriptlessHeaders = (style: string): Record<string, string> =>
  pageHeaders(
    [
      "default-src 'none'",
      'img-src data:',
      `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ].join('; '),
  )

/** Returns the headers of a page with this content security policy. */
export const pageHeaders = (policy: string): Record<string, string> => ({
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
})
