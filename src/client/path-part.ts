/** An id that no URL can have: a parser of URLs takes it for a step to another path. Nothing was sent. */
export class ImpossibleId extends Error {
  override readonly name = 'ImpossibleId'
  readonly id: string

  constructor(id: string) {
    super(`${id} cannot be an id: in a URL it leads to another path`)
    this.id = id
  }
}

/**
 * Escapes an id as one part of a path. Throws {@link ImpossibleId} for `.` and `..`, because a parser of URLs (WHATWG
 * URL, "single-dot" and "double-dot URL path segment") resolves them even if their dots are escaped.
 */
export function pathPart(id: string): string {
  if (id === '.' || id === '..') throw new ImpossibleId(id)
  return encodeURIComponent(id)
}
