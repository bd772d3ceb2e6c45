/** What a store said, as far as it is judged. */
export type StoreAnswer = {
  readonly status: number
  /** The S3 error code, from {@link errorCodeIn}. */
  readonly code?: string | undefined
  /** Of the Retry-After header, from {@link parseRetryAfter}. */
  readonly retryAfterMs?: number | undefined
}

/** What an answer that is no success means for the same request; the words follow "because". */
export type StoreRefusal =
  | { readonly kind: 'expired' | 'gone' | 'refused' | 'damaged'; readonly because: string }
  | { readonly kind: 'busy'; readonly because: string; readonly retryAfterMs?: number }

/**
 * Codes that say more than their status: of 400, and of a completion that failed after its status was sent (Amazon S3 API
 * Reference, "Error responses" and "CompleteMultipartUpload").
 */
const CODES: Readonly<Record<StoreRefusal['kind'], readonly string[]>> = {
  // Also where the credentials that signed it were temporary, and ended before it.
  expired: ['ExpiredToken', 'InvalidToken', 'TokenRefreshRequired'],
  gone: ['NoSuchUpload'],
  // What came has not the digest that it should have: damaged on the way, or before it went out.
  damaged: ['BadDigest'],
  // Not all of it came, or not in time; or the store is not well.
  busy: [
    ...['InvalidDigest', 'IncompleteBody', 'RequestTimeout', 'OperationAborted'],
    ...['InternalError', 'ServiceUnavailable', 'SlowDown'],
  ],
  refused: ['InvalidPart', 'InvalidPartOrder', 'EntityTooSmall', 'EntityTooLarge', 'MalformedXML'],
}

const KINDS = ['expired', 'gone', 'damaged', 'busy', 'refused'] as const

export function judgeAnswer({ status, code, retryAfterMs }: StoreAnswer): StoreRefusal {
  const because = `it answered ${status}${code === undefined ? '' : ` (${code})`}`
  const kind = kindOf(status, code)
  return kind === 'busy' && retryAfterMs !== undefined ? { kind, because, retryAfterMs } : { kind, because }
}

function kindOf(status: number, code: string | undefined): StoreRefusal['kind'] {
  if (status === 401 || status === 403) return 'expired'
  const byCode = KINDS.find((kind) => CODES[kind].includes(code ?? ''))
  if (byCode !== undefined) return byCode
  // A status that stands for success, with an error in the body that we do not know: the store tried.
  if (status < 300) return 'busy'
  if (status === 408 || status === 425 || status === 429) return 'busy'
  // Not implemented, and a version of HTTP that it does not speak, stay so (RFC 9110, 15.6).
  return status >= 500 && status !== 501 && status !== 505 ? 'busy' : 'refused'
}

/**
 * The name of the root element of an XML document; undefined where there is none. Not a parser: it is asked of short answers
 * whose root alone tells success from failure, and expands nothing.
 */
export function rootElementOf(text: string): string | undefined {
  const prolog = /^\uFEFF?(?:\s+|<\?[^>]*\?>|<!--[^-]*(?:-[^-]+)*-->)*/.exec(text)?.[0] ?? ''
  return /^<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)[\s/>]/.exec(text.slice(prolog.length))?.[1]
}

/** The code of an S3 error document, where there is one and it looks like one: it is told to others. */
export function errorCodeIn(text: string): string | undefined {
  if (rootElementOf(text) !== 'Error') return undefined
  return /<(?:[A-Za-z_][\w.-]*:)?Code>\s*([A-Za-z0-9.]{1,64})\s*<\//.exec(text)?.[1]
}

/** Retry-After: seconds, or a date in the form that HTTP prefers (RFC 9110, 10.2.3 and 5.6.7), in milliseconds from `nowMs`. */
export function parseRetryAfter(value: string | undefined, nowMs: number): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(value)) return undefined
  const atMs = Date.parse(value)
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs)
}

/** Whether an ETag may be the MD5 of what it names, unless {@link hidesContent}. */
export const looksLikeMd5 = (etag: string): boolean => /^[0-9a-f]{32}$/i.test(etag)

/** Whether it may be that of an object of so many parts: the MD5 of their MD5s, and how many there are. */
export const looksLikeMd5OfParts = (etag: string): boolean => /^[0-9a-f]{32}-[1-9][0-9]{0,4}$/i.test(etag)

/**
 * Whether an ETag tells nothing of the content, by the headers beside it: what is encrypted with a key of KMS or of the client
 * has any other ETag, which may look like an MD5 (Amazon S3 API Reference, "Object").
 */
export function hidesContent(headers: Readonly<Record<string, string | string[] | undefined>>): boolean {
  const algorithm = String(headers['x-amz-server-side-encryption'] ?? '')
  return /^aws:kms(:|$)/i.test(algorithm) || headers[CUSTOMER_KEY] !== undefined
}

const CUSTOMER_KEY = 'x-amz-server-side-encryption-customer-algorithm'

/** The ETag of a header without its quotes; undefined where it is none that could be given back (RFC 9110, 8.8.3). */
export function parseEtag(value: string | undefined): string | undefined {
  return /^(?:W\/)?"?([\x21\x23-\x7e]{1,256}?)"?$/.exec(value ?? '')?.[1]
}

/** The body that completes a multipart upload (Amazon S3 API Reference, "CompleteMultipartUpload"). */
export function renderCompletion(
  parts: readonly { readonly number: number; readonly etag: string }[],
): string {
  const list = parts.map(
    ({ number, etag }) =>
      `<Part><PartNumber>${number}</PartNumber><ETag>&quot;${escapeXml(etag)}&quot;</ETag></Part>`,
  )
  const namespace = 'http://s3.amazonaws.com/doc/2006-03-01/'
  return `<CompleteMultipartUpload xmlns="${namespace}">${list.join('')}</CompleteMultipartUpload>`
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

const escapeXml = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => ENTITIES[character] ?? character)
