import type { components, ProblemCode } from './schema.d.ts'

export type Problem = components['schemas']['Problem']

/** The daemon refused a request or could not do it: its problem (RFC 9457) as an error. Decide on `code`. */
export class ApiProblem extends Error {
  override readonly name = 'ApiProblem'
  readonly problem: Problem
  /** When to try again; undefined if the daemon does not say so. */
  readonly retryAfterSeconds: number | undefined

  /** `retryAfter` is the header of the answer (RFC 9110, 10.2.3). The daemon writes seconds. */
  constructor(problem: Problem, retryAfter?: string | null) {
    super(problem.detail)
    this.problem = problem
    this.retryAfterSeconds = /^\d+$/.test(retryAfter ?? '') ? Number(retryAfter) : undefined
  }

  /** Returns a code of the catalogue, or of a newer daemon another one. */
  get code(): ProblemCode | (string & {}) {
    return this.problem.code
  }

  get status(): number {
    return this.problem.status
  }

  get detail(): string {
    return this.problem.detail
  }

  get requestId(): string {
    return this.problem.request_id
  }
}

/**
 * An answer that does not come from vmhostd: another HTTP server listens there. With status 204 it may come from
 * vmhostd, and the call was awaited with `answered`, which needs content.
 */
export class UnexpectedAnswer extends Error {
  override readonly name = 'UnexpectedAnswer'
  readonly status: number

  constructor(status: number) {
    super(
      status === 204
        ? 'an answer with status 204, which has no content: if the request may have that, use answeredUnlessEmpty'
        : `an answer with status ${status} that is not vmhostd's`,
    )
    this.status = status
  }
}

/** Returns whether the body of an error answer is a problem of the API. */
export function isProblem(body: unknown): body is Problem {
  if (typeof body !== 'object' || body === null) return false
  const { code, detail, status } = body as Record<string, unknown>
  return typeof code === 'string' && typeof detail === 'string' && typeof status === 'number'
}
