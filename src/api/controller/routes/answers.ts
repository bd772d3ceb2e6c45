import { rejections } from '../../../core/errors.ts'
import { PROBLEM_MEDIA_TYPE } from '../../wire/problem.ts'
import type { RejectionCode } from '../../../core/errors.ts'

export const requestIdHeader = {
  'X-Request-Id': {
    type: 'string',
    description: 'Of the request if it had a well-formed one, else made here.',
  },
}

/** Any route can answer these; so can the listener 408 and 431, before there is a route. */
const COMMON: readonly RejectionCode[] = ['invalid_request', 'forbidden', 'internal']

/** The error answers of a route by status, for its description. */
export function problems(...codes: readonly RejectionCode[]): Record<number, object> {
  const all = [...COMMON, ...codes]
  const statuses = [...new Set(all.map((code) => rejections[code].status))].toSorted((a, b) => a - b)
  return Object.fromEntries(
    statuses.map((status) => {
      const here = all.filter((code) => rejections[code].status === status)
      const description = here.map((code) => `\`${code}\`: ${rejections[code].title}.`).join('\n\n')
      return [
        status,
        {
          description,
          headers: requestIdHeader,
          content: { [PROBLEM_MEDIA_TYPE]: { schema: { $ref: 'Problem#' } } },
        },
      ]
    }),
  )
}
