const REDACTED = '[redacted]'

/**
 * A URL that grants access by itself. It has no printable form: string conversion, JSON and inspection all give
 * `[redacted]`. `test/tidy.test.ts` limits the files that may call `reveal`.
 */
export class SignedUrl {
  readonly #url: string

  constructor(url: string) {
    this.#url = url
  }

  reveal(): string {
    return this.#url
  }

  /** The host that the URL names, with the port if there is one; empty for a file. It grants nothing. */
  get host(): string {
    return URL.parse(this.#url)?.host ?? ''
  }

  /** The multipart upload that the URL names, as S3 and its compatibles do; undefined if it names none. */
  get uploadId(): string | undefined {
    return URL.parse(this.#url)?.searchParams.get('uploadId') ?? undefined
  }

  /** Returns whether both URLs name an upload, and not the same one. */
  isOfOtherUpload({ uploadId }: SignedUrl): boolean {
    return this.uploadId !== undefined && uploadId !== undefined && this.uploadId !== uploadId
  }

  equals(other: SignedUrl): boolean {
    return this.#url === other.#url
  }

  toString(): string {
    return REDACTED
  }

  toJSON(): string {
    return REDACTED
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return REDACTED
  }
}
