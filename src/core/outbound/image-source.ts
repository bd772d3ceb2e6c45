import { err, ok } from '../../lib/result.ts'
import { refusedUrl } from './outbound-policy.ts'
import type { Result } from '../../lib/result.ts'
import type { OutboundPolicy } from './outbound-policy.ts'
import type { SignedUrl } from './signed-url.ts'

/** The source of an image: `https:` (usually signed), or `file:` inside the configured local directory. */
export type ImageSource = { readonly url: SignedUrl }

export type CheckedSource =
  /** The connection decides whether it is allowed (core/outbound/outbound-policy.ts). */
  | { readonly kind: 'remote'; readonly url: URL }
  /** Only the host can decide whether the file lies inside the local directory. */
  | { readonly kind: 'local'; readonly url: URL }

/**
 * Returns why no image may come from this URL, as a phrase that follows "it"; undefined if it may. Never repeats the
 * URL, which may be signed. The addresses of a name, and the target of a symbolic link, are judged when the image is
 * fetched.
 */
export function refusedSource(
  source: SignedUrl,
  policy: OutboundPolicy,
  localDirectory: string | undefined,
): string | undefined {
  const checked = checkSource(source.reveal(), localDirectory !== undefined)
  if (!checked.ok) return checked.error
  const { kind, url } = checked.value
  if (kind === 'remote') return refusedUrl(source, policy)
  return isBelow(url, localDirectory ?? '')
    ? undefined
    : 'names a file outside of the local image directory of this host'
}

function isBelow({ pathname }: URL, directory: string): boolean {
  try {
    // The URL has no dot segments any more (url.spec.whatwg.org, "path state"), unless encoded slashes hide them.
    const path = decodeURIComponent(pathname)
    return path.startsWith(`${directory.replace(/\/+$/, '')}/`) && !path.split('/').includes('..')
  } catch {
    return false
  }
}

/**
 * Checks the URL of an image; `allowFile`: a local image directory is configured. The reason of a refusal follows "its
 * URL", and never repeats the URL, which may be signed.
 */
export function checkSource(text: string, allowFile: boolean): Result<CheckedSource, string> {
  const url = URL.parse(text)
  if (url === null) return err('is not an absolute URL')
  if (url.protocol !== 'file:') return ok({ kind: 'remote', url })
  if (!allowFile) return err('names a file, and no local image directory is configured')
  return url.host === '' ? ok({ kind: 'local', url }) : err('names a file on another host')
}
