import { err, ok } from '../../lib/result.ts'
import type { Result } from '../../lib/result.ts'

export type CheckedSource =
  /** Whether this host may speak to it is judged where it does (core/object-store/outbound-policy.ts). */
  | { readonly kind: 'remote'; readonly url: URL }
  /** Whether the file lies inside the local directory only the host can tell. */
  | { readonly kind: 'local'; readonly url: URL }

/**
 * Checks the URL of an image; `allowFile`: a local image directory is configured. The reason of a refusal follows "its URL",
 * and never repeats it: it may be signed.
 */
export function checkSource(text: string, allowFile: boolean): Result<CheckedSource, string> {
  const url = URL.parse(text)
  if (url === null) return err('is no absolute URL')
  if (url.protocol !== 'file:') return ok({ kind: 'remote', url })
  if (!allowFile) return err('names a file, and no local image directory is configured')
  return url.host === '' ? ok({ kind: 'local', url }) : err('names a file on another host')
}
