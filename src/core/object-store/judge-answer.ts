/** The parts of a store's answer that are judged. */
export type StoreAnswer = {
  readonly status: number
  /** The S3 error code, from {@link errorCodeIn}. */
  readonly code?: string | undefined
  /** From the Retry-After header, by {@link parseRetryAfter}. */
  readonly retryAfterMs?: number | undefined
}

/** The meaning of a failed answer for the same request; the words follow "because". */
export type StoreRefusal =
  | { readonly kind: 'expired' | 'gone' | 'refused' | 'damaged'; readonly because: string }
  | { readonly kind: 'busy'; readonly because: string; readonly retryAfterMs?: number }

/**
 * Codes that say more than their status: those of 400, and of a completion that failed after its status was sent
 * (Amazon S3 API Reference, "Error responses" and "CompleteMultipartUpload").
 */
const CODES: Readonly<Record<StoreRefusal['kind'], readonly string[]>> = {
  // Also sent if the credentials that signed the URL were temporary, and expired before the URL.
  expired: ['ExpiredToken', 'InvalidToken', 'TokenRefreshRequired'],
  gone: ['NoSuchUpload'],
  // The received digest is not the expected one: damaged on the way, or before it was sent.
  damaged: ['BadDigest'],
  // The body was incomplete or late, or the store has a problem.
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
  // The status means success, but the body has an unknown error: the store tried.
  if (status < 300) return 'busy'
  if (status === 408 || status === 425 || status === 429) return 'busy'
  // A method that is not implemented, or an unsupported version of HTTP, stays so (RFC 9110, 15.6).
  return status >= 500 && status !== 501 && status !== 505 ? 'busy' : 'refused'
}

/**
 * Returns the name of the root element of an XML document; undefined if there is none. It is not a parser. It reads
 * short answers whose root alone distinguishes success from failure, and expands nothing.
 */
export function rootElementOf(text: string): string | undefined {
  const prolog = /^\uFEFF?(?:\s+|<\?[^>]*\?>|<!--[^-]*(?:-[^-]+)*-->)*/.exec(text)?.[0] ?? ''
  return /^<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)[\s/>]/.exec(text.slice(prolog.length))?.[1]
}

/**
 * Returns the code of an S3 error document; undefined if there is none, or if it does not look like one, because others
 * see it.
 */
export function errorCodeIn(text: string): string | undefined {
  if (rootElementOf(text) !== 'Error') return undefined
  return /<(?:[A-Za-z_][\w.-]*:)?Code>\s*([A-Za-z0-9.]{1,64})\s*<\//.exec(text)?.[1]
}

/**
 * Parses Retry-After: seconds, or a date in HTTP's preferred form (RFC 9110, 10.2.3 and 5.6.7). Returns milliseconds
 * from `nowMs`.
 */
export function parseRetryAfter(value: string | undefined, nowMs: number): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(value)) return undefined
  const atMs = Date.parse(value)
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs)
}

/** Returns whether an ETag may be the MD5 of its object, unless {@link hidesContent}. */
export const looksLikeMd5 = (etag: string): boolean => /^[0-9a-f]{32}$/i.test(etag)

/** Returns whether an ETag may belong to an object of this many parts: the MD5 of their MD5s, and their number. */
export const looksLikeMd5OfParts = (etag: string): boolean => /^[0-9a-f]{32}-[1-9][0-9]{0,4}$/i.test(etag)

/**
 * Returns whether the headers beside an ETag show that it says nothing about the content. Content that is encrypted
 * with a key of KMS or of the client has another ETag, which may look like an MD5 (Amazon S3 API Reference, "Object").
 */
export function hidesContent(headers: Readonly<Record<string, string | string[] | undefined>>): boolean {
  const algorithm = String(headers['x-amz-server-side-encryption'] ?? '')
  return /^aws:kms(:|$)/i.test(algorithm) || headers[CUSTOMER_KEY] !== undefined
}

const CUSTOMER_KEY = 'x-amz-server-side-encryption-customer-algorithm'

/** Returns the ETag of a header without its quotes; undefined if it could not be sent back (RFC 9110, 8.8.3). */
export function parseEtag(value: string | undefined): string | undefined {
  return /^(?:W\/)?"?([\x21\x23-\x7e]{1,256}?)"?$/.exec(value ?? '')?.[1]
}

/** Renders the body that completes a multipart upload (Amazon S3 API Reference, "CompleteMultipartUpload"). */
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
