const REDACTED = '[redacted]'

/**
 * A URL that grants access by itself. It has no printable form: string conversion, JSON and inspection all give
 * `[redacted]`. Where `reveal` may be called is a rule of `test/tidy.test.ts`.
 */
export class SignedUrl {
  readonly #url: string

  constructor(url: string) {
    this.#url = url
  }

  reveal(): string {
    return this.#url
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
