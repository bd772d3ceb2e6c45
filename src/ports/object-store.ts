import type { SignedUrl } from '../core/outbound/signed-url.ts'

/** The bytes of a part, readable more than once. */
export type PartBody = {
  readonly bytes: number
  /** Reads from the first byte. Each chunk is valid until the next one is requested. Throws HostFault. */
  chunks(signal: AbortSignal): AsyncIterable<Uint8Array>
}

/**
 * Result of a request that failed, as far as the next action depends on it. `because` is in plain words: a status and
 * the store's error code, never any part of a URL or of a body.
 */
export type Unsent =
  /** The store does not accept the URL, or no longer accepts it (401, 403). A fresh one may work. */
  | { readonly kind: 'expired'; readonly because: string }
  /** The store does not know the upload: it was completed or aborted. */
  | { readonly kind: 'gone'; readonly because: string }
  /** The same request would be refused again. */
  | { readonly kind: 'refused'; readonly because: string }
  /** The MD5 of what the store received is not the expected one. Another try may help, if the sent bytes are intact. */
  | { readonly kind: 'damaged'; readonly because: string }
  /** The outbound policy of this host does not allow the URL. */
  | { readonly kind: 'not_allowed'; readonly because: string }
  /**
   * Busy, unreachable, too slow, or the connection broke: try again, but not before `retryAfterMs` if the store set it.
   */
  | { readonly kind: 'busy'; readonly because: string; readonly retryAfterMs?: number }

export type PartOutcome = { readonly kind: 'stored'; readonly etag: string } | Unsent
export type CompleteOutcome = { readonly kind: 'completed' } | Unsent
export type HeadOutcome =
  /** The ETag is absent if it says nothing about the content. */
  | { readonly kind: 'present'; readonly bytes: number; readonly etag?: string }
  | { readonly kind: 'absent' }
  | Unsent

export type PartToSend = {
  readonly url: SignedUrl
  readonly body: PartBody
  /** Lower-case hexadecimal; the store gets it and compares it (Content-MD5, RFC 1864). */
  readonly md5: string
  /** Called with the bytes that went out since the last call, several times a second. */
  readonly onSent?: (bytes: number) => void
}

/**
 * An S3-compatible store, reached only by signed URLs. Each method makes one attempt, bounded in time, and returns its
 * result. Throws the signal's reason on abort, and HostFault if the body cannot be read.
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
