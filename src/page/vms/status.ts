import { ApiProblem, UnexpectedAnswer } from '../../client/api-problem.ts'
import { ConnectionFailed } from '../../client/connection-failed.ts'
import { limits } from '../../config/limits.ts'

/** How current the list is. */
export type Status =
  | { readonly kind: 'loading' }
  /** Changes are shown as they happen. */
  | { readonly kind: 'live' }
  /** The stream of events is not there; the page asks from time to time. */
  | { readonly kind: 'asking' }
  /** The daemon does not answer; what is shown is old. The page keeps trying. */
  | { readonly kind: 'away'; readonly because: string }
  /** The daemon refused, and will again. */
  | { readonly kind: 'refused'; readonly code: string; readonly title: string; readonly detail: string }

export function statusWords(status: Status): string {
  switch (status.kind) {
    case 'loading':
      return 'Loading'
    case 'live':
      return 'Live'
    case 'asking':
      return `Updated every ${limits.hostPageAskEveryMs / 1000} s`
    case 'away':
      return `${status.because}. Trying again; this may be out of date`
    case 'refused':
      return status.title
    default:
      return status satisfies never
  }
}

/**
 * Returns the status after a failed request. Throws an error that is none of the daemon or of the connection: a bug.
 */
export function statusOfFailure(error: unknown): Status {
  if (error instanceof ApiProblem) {
    const { code, title, retryable } = error.problem
    if (retryable) return { kind: 'away', because: sentence(error.detail) }
    return { kind: 'refused', code, title, detail: sentence(error.detail) }
  }
  if (error instanceof ConnectionFailed) return { kind: 'away', because: sentence(error.message) }
  if (error instanceof UnexpectedAnswer)
    return { kind: 'away', because: `An answer with status ${error.status} came that is not the daemon's` }
  throw error
}

const sentence = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1)
