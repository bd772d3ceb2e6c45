import { limits } from '../../config/limits.ts'
import { unreachable } from '../../lib/assert.ts'
import { given } from '../../lib/given.ts'
import { done, failed } from './outcome.ts'
import type { UrlPurpose } from '../../core/snapshots/record.ts'
import type { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { Unsent } from '../../ports/object-store.ts'
import type { Task } from './context.ts'
import type { Outcome } from './outcome.ts'

/** Says that the store may take another try. */
const TRY_AGAIN = { kind: 'retry', code: 'upload_busy', attemptsMax: limits.sendAttemptsMax } as const

/** Returns the outcome of a request that the store did not grant. */
export function afterRefusal(
  { entry }: Task,
  unsent: Unsent,
  { purpose, url }: { readonly purpose: UrlPurpose; readonly url: SignedUrl },
): Outcome {
  const what = typeof purpose === 'number' ? `part ${purpose}` : 'the completion'
  const message = `${what}: ${unsent.because}`
  switch (unsent.kind) {
    case 'damaged':
      return { ...TRY_AGAIN, message }
    case 'busy':
      return { ...TRY_AGAIN, message, ...given({ retryAfterMs: unsent.retryAfterMs }) }
    case 'expired':
      // The store no longer accepts this URL. Fresh URLs, which may have come meanwhile, are tried at once.
      return entry.dropUrls(purpose, url) ? { kind: 'expired', message } : done
    case 'gone':
      return failed('upload_gone', message)
    case 'refused':
      return failed('upload_refused', message)
    case 'not_allowed':
      return failed('upload_url_not_allowed', message, true)
    default:
      return unreachable(unsent)
  }
}
