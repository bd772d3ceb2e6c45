import { Type } from 'typebox'
import { HostFault } from '../../core/errors.ts'
import { faults, rejections, retryAfterSeconds } from '../../core/problems/catalogue.ts'
import { limits } from '../../config/limits.ts'
import { hindranceOf } from '../../log/error-chain.ts'
import { shownText } from './values.ts'
import type { Static } from 'typebox'
import type { Hindrance, ProblemCode, Rejection, RejectionCode } from '../../core/errors.ts'

export const PROBLEM_MEDIA_TYPE = 'application/problem+json'

export const problemSchema = Type.Object(
  {
    type: Type.String({ format: 'uri-reference', description: 'Link to the explanation of the code.' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String({ description: 'The error in this request, and what to do.' }),
    code: Type.String({ description: 'Stable; a client must decide by it, not by the texts.' }),
    retryable: Type.Boolean({
      description:
        'Whether the same request may succeed later, without a change. Then `Retry-After` says when to try again.',
    }),
    request_id: Type.String(),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          pointer: Type.String({
            description:
              'JSON pointer (RFC 6901) into the body, or into the query, path parameters or headers.',
          }),
          code: Type.String(),
          detail: Type.String(),
        }),
        { description: 'The errors that validation found. At most eight are listed.' },
      ),
    ),
  },
  { description: 'An error (RFC 9457).' },
)

export type Problem = Static<typeof problemSchema>

/** Translates a rejection for the client. */
export function problemOf(rejection: Rejection, requestId: string): Problem {
  const { status, title } = rejections[rejection.code]
  const pointers = (rejection.errors ?? []).map(({ pointer }) => pointer)
  return {
    type: typeOf(rejection.code),
    title,
    status,
    detail: shownText(rejection.detail, pointers),
    code: rejection.code,
    retryable: retryAfterSeconds(rejection.code) !== undefined,
    request_id: requestId,
    ...(rejection.errors === undefined ? {} : { errors: rejection.errors.map(shownError) }),
  }
}

/** Translates a fault of the host, for a request that needed the host. */
export const problemOfFault = (fault: HostFault, requestId: string): Problem =>
  problemOfUnknown(hindranceOf(fault), requestId)

/** Translates a failed inspection, for an answer that depends on it. */
export function problemOfUnknown({ code, retry, message }: Hindrance, requestId: string): Problem {
  return {
    type: typeOf(code),
    title: faults[code].title,
    status: 503,
    detail: shownText(message),
    code,
    retryable: retryAfterSeconds(code, retry) !== undefined,
    request_id: requestId,
  }
}

const typeOf = (code: ProblemCode): string => `/docs/errors#${code}`

const isRejection = (code: ProblemCode): code is RejectionCode => Object.hasOwn(rejections, code)

/** Returns the headers that belong to a problem: `Retry-After` in seconds, if trying again may help. */
export function problemHeaders({ code, retryable }: Problem): { 'retry-after'?: string } {
  // A fault may be of another class here than its entry says.
  const seconds = retryAfterSeconds(code as ProblemCode) ?? limits.retryAfterBackoffSeconds
  return retryable ? { 'retry-after': String(seconds) } : {}
}

/**
 * Returns whether an answer with this code may have `Retry-After`. A fault may be of another class than its entry says.
 */
export const mayRetry = (code: ProblemCode): boolean =>
  !isRejection(code) || retryAfterSeconds(code) !== undefined

/** Returns the status and the title of an answer with this code. A fault of the host is answered as 503. */
export const problemHead = (code: ProblemCode): { readonly status: number; readonly title: string } =>
  isRejection(code) ? rejections[code] : { status: 503, title: faults[code].title }

/** Scrubs the pointer: it repeats names from the request, and a URL pasted as a name must not come back. */
const shownError = ({ pointer, code, detail }: NonNullable<Rejection['errors']>[number]) => ({
  pointer: shownText(pointer, [pointer]),
  code,
  detail: shownText(detail),
})

const REQUEST_ID = 'req-1f0c5a9be3d24c77'

/** The finding in the example of a malformed request. */
const FINDING = {
  pointer: '/compute/cpu_millicores',
  code: 'out_of_range',
  detail: 'must be between 100 and 32000',
}

/** Returns a whole answer with this code, made from the example in the catalogue. */
export function exampleOf(code: ProblemCode): Problem {
  if (!isRejection(code)) {
    const { retry, example: message } = faults[code]
    return problemOfUnknown({ code, retry, message }, REQUEST_ID)
  }
  const errors = code === 'invalid_request' ? { errors: [FINDING] } : {}
  return problemOf({ code, detail: rejections[code].example, ...errors }, REQUEST_ID)
}
