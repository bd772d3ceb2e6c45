import type { SignedUrl } from '../core/storage/signed-url.ts'

/** The bytes of a part, readable more than once. */
export type PartBody = {
  readonly bytes: number
  /** From the first byte. Each chunk is good until the next is asked for. Throws HostFault. */
  chunks(signal: AbortSignal): AsyncIterable<Uint8Array>
}

/**
 * What became of a request, as far as what to do next depends on it. `because` is in plain words: a status and the store's
 * error code, never any part of a URL or of a body.
 */
export type Unsent =
  /** The URL is no good, or no good any more (401, 403). A fresh one may be. */
  | { readonly kind: 'expired'; readonly because: string }
  /** The store does not know the upload: it was completed or aborted. */
  | { readonly kind: 'gone'; readonly because: string }
  /** The same again would be refused again. */
  | { readonly kind: 'refused'; readonly because: string }
  /** What the store got has not the MD5 that it should have. Worth another try, if what is sent has it. */
  | { readonly kind: 'damaged'; readonly because: string }
  /** The outbound policy of this host does not allow the URL. */
  | { readonly kind: 'not_allowed'; readonly because: string }
  /** Busy, out of reach, too slow, or it broke off: worth another try, not before this long where the store says so. */
  | { readonly kind: 'busy'; readonly because: string; readonly retryAfterMs?: number }

export type PartOutcome = { readonly kind: 'stored'; readonly etag: string } | Unsent
export type CompleteOutcome = { readonly kind: 'completed' } | Unsent
export type HeadOutcome =
  /** The ETag is absent where it tells nothing of the content. */
  | { readonly kind: 'present'; readonly bytes: number; readonly etag?: string }
  | { readonly kind: 'absent' }
  | Unsent

export type PartToSend = {
  readonly url: SignedUrl
  readonly body: PartBody
  /** Lower-case hexadecimal; the store is told, and compares (Content-MD5, RFC 1864). */
  readonly md5: string
  /** Called with the bytes that went out since the last call, a few times a second. */
  readonly onSent?: (bytes: number) => void
}

/**
 * An S3-compatible store, spoken to by signed URLs alone. Each method makes one attempt, bounded in time, and answers what
 * became of it. Throws the signal's reason on abort, and HostFault where the body cannot be read.
 */
export interface ObjectStore {
  putPart(part: PartToSend, signal: AbortSignal): Promise<PartOutcome>
  /** Completes the multipart upload of these parts, in order of their numbers. */
  complete(
    url: SignedUrl,
    parts: readonly { readonly number: number; readonly etag: string }[],
    signal: AbortSignal,
  ): Promise<CompleteOutcome>
  /** Asks for the finished object (HEAD). */
  head(url: SignedUrl, signal: AbortSignal): Promise<HeadOutcome>
}
