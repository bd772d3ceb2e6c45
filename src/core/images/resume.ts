/** Header fields of an answer, their names in lower case. */
export type Fields = Readonly<Record<string, string | readonly string[] | undefined>>

/** Facts about the object that a source sends, as far as a resumed request needs them. */
export type Sent = {
  /** Length of the whole object. */
  readonly bytes?: number
  /** Value for `If-Range`: a strong entity tag, or a date that is as good as one. */
  readonly validator?: string
}

/** Reads an answer of 200. */
export function sentBy(fields: Fields): Sent {
  const bytes = numberIn(text(fields, 'content-length'))
  const validator = validatorIn(fields)
  return { ...(bytes !== undefined && { bytes }), ...(validator !== undefined && { validator }) }
}

/** Asks for the missing bytes, or for the whole object if it has changed meanwhile (RFC 9110, 13.1.5 and 14.2). */
export const resumeFields = (received: number, { validator }: Sent): Readonly<Record<string, string>> => ({
  range: `bytes=${received}-`,
  ...(validator === undefined ? {} : { 'if-range': validator }),
})

export type Resumption =
  /** The missing bytes follow; `bytes` is the length of the whole object, if it is known. */
  | { readonly kind: 'resumed'; readonly bytes?: number }
  /** The source sends the whole object from its first byte, with this answer. */
  | { readonly kind: 'restarted' }
  /** The answer is a part of another object; the whole object must be requested. */
  | { readonly kind: 'changed' }
  /** The reason follows "it". */
  | { readonly kind: 'refused'; readonly because: string }

/** Judges the answer to {@link resumeFields}. */
export function judgeResumption(status: number, fields: Fields, received: number, sent: Sent): Resumption {
  if (status === 200) return { kind: 'restarted' }
  if (status !== 206) return { kind: 'refused', because: `answered ${status}` }
  const range = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(text(fields, 'content-range') ?? '')
  if (range === null) return { kind: 'refused', because: 'answered 206 without saying which part' }
  const [first, last, bytes] = [Number(range[1]), Number(range[2]), numberIn(range[3])]
  if (bytes !== undefined && sent.bytes !== undefined && bytes !== sent.bytes) return { kind: 'changed' }
  if (isAnother(fields, sent)) return { kind: 'changed' }
  if (first !== received || last < first || last >= (bytes ?? Infinity)) {
    return { kind: 'refused', because: 'sends another part than it was asked for' }
  }
  return { kind: 'resumed', ...(bytes !== undefined && { bytes }) }
}

/** Returns whether an answer has another validator than before. An answer may leave out the one in the request. */
function isAnother(fields: Fields, { validator }: Sent): boolean {
  if (validator === undefined) return false
  const reported = text(fields, validator.startsWith('"') ? 'etag' : 'last-modified')
  return reported !== undefined && reported !== validator
}

/**
 * Returns the validator of an answer. A weak tag cannot be used for parts (RFC 9110, 13.1.5). Neither can a date from
 * the second in which the object may have changed again (8.8.2.2).
 */
function validatorIn(fields: Fields): string | undefined {
  const etag = text(fields, 'etag')
  if (etag !== undefined) return /^"[\x21\x23-\x7e\x80-\xff]*"$/.test(etag) ? etag : undefined
  const modified = text(fields, 'last-modified')
  const [modifiedMs, dateMs] = [modified, text(fields, 'date')].map((date) => Date.parse(date ?? ''))
  return dateMs !== undefined && modifiedMs !== undefined && dateMs - modifiedMs >= 1000
    ? modified
    : undefined
}

const text = (fields: Fields, name: string): string | undefined => {
  const value = fields[name]
  return typeof value === 'string' ? value : undefined
}

const numberIn = (digits: string | undefined): number | undefined =>
  digits !== undefined && /^\d{1,15}$/.test(digits) ? Number(digits) : undefined
