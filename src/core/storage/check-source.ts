import { err, ok } from '../../lib/result.ts'
import type { Result } from '../../lib/result.ts'

/** What this host takes images from, besides `https:`. */
export type SourcePolicy = {
  readonly allowHttp: boolean
  /** Whether a local image directory is configured. */
  readonly allowFile: boolean
}

export type CheckedSource =
  | { readonly kind: 'remote'; readonly url: URL }
  /** Whether the file lies inside the local directory only the host can tell. */
  | { readonly kind: 'local'; readonly url: URL }

/** Checks the URL of an image. The reason of a refusal never repeats the URL: it may be signed. */
export function checkSource(
  text: string,
  { allowHttp, allowFile }: SourcePolicy,
): Result<CheckedSource, string> {
  const url = URL.parse(text)
  if (url === null) return err('it is no absolute URL')
  switch (url.protocol) {
    case 'https:':
      return ok({ kind: 'remote', url })
    case 'http:':
      return allowHttp ? ok({ kind: 'remote', url }) : err('http: is not allowed on this host')
    case 'file:':
      if (!allowFile) return err('no local image directory is configured')
      if (url.host !== '') return err('a file: URL names no host')
      return ok({ kind: 'local', url })
    default:
      return err(`${url.protocol} is no scheme for images`)
  }
}

/** Checks where a source sends us on to. A redirect never leaves TLS and never ends at a file. */
export function checkRedirect(from: URL, location: string, policy: SourcePolicy): Result<URL, string> {
  const target = URL.parse(location, from)
  if (target === null) return err('it redirects to no URL')
  if (from.protocol === 'https:' && target.protocol !== 'https:') return err('it redirects away from https:')
  const checked = checkSource(target.href, { ...policy, allowFile: false })
  return checked.ok ? ok(checked.value.url) : err('it redirects to what is not allowed on this host')
}
