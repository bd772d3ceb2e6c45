import { stripVTControlCharacters } from 'node:util'

/**
 * Returns one line of foreign text in which nothing can move the cursor, colour what follows, or change the order in
 * which a reader sees it.
 */
export const printable = (text: string): string =>
  withoutDirections(stripVTControlCharacters(text))
    // oxlint-disable-next-line no-control-regex -- control characters are what it takes out
    .replaceAll(/[\u0000-\u001F\u007F-\u009F]+/g, ' ')

/**
 * Removes the characters that only change the direction of text (UAX #9, 2). With them, a terminal or a page could show
 * the letters of a line in another order than they have.
 */
export const withoutDirections = (text: string): string => text.replaceAll(/\p{Bidi_Control}+/gu, '')

/** Does the same as {@link printable} for several lines, which stay lines. */
export const printableLines = (text: string): string =>
  // Escape sequences are removed first, because one may contain a line end.
  stripVTControlCharacters(text).split(/\r*\n/).map(printable).join('\n')

/** Returns a text of at most this many characters; the last one is a sign if some are missing. */
export const cutText = (text: string, charactersMax: number): string =>
  text.length <= charactersMax ? text : `${text.slice(0, charactersMax - 1)}…`

/**
 * Returns the candidate most like `word`, for a "did you mean"; undefined if none is close enough to be a typing error.
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const near = candidates
    .map((candidate) => ({ candidate, distance: editDistance(word, candidate) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .toSorted((a, b) => a.distance - b.distance)
  return near[0]?.candidate
}

/** Counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment distance). */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)]
  const at = (row: number, column: number): number => rows[row]?.[column] ?? Number.POSITIVE_INFINITY
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row]
    rows.push(current)
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1]
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      current.push(
        Math.min(
          at(row - 1, column - 1) + (same ? 0 : 1),
          at(row - 1, column) + 1,
          at(row, column - 1) + 1,
          swapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      )
    }
  }
  return at(a.length, b.length)
}

/** `user_id_first` becomes `userIdFirst`. */
export type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S

/** `userIdFirst` becomes `user_id_first`. */
export type SnakeCase<S extends string> = S extends `${infer Letter}${infer Rest}`
  ? Letter extends Capitals
    ? `_${Lowercase<Letter>}${SnakeCase<Rest>}`
    : `${Letter}${SnakeCase<Rest>}`
  : S

type Capitals =
  | ('A' | 'B' | 'C' | 'D' | 'E' | 'F' | 'G' | 'H' | 'I' | 'J' | 'K' | 'L' | 'M')
  | ('N' | 'O' | 'P' | 'Q' | 'R' | 'S' | 'T' | 'U' | 'V' | 'W' | 'X' | 'Y' | 'Z')

export const camelCase = (name: string): string =>
  name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

export const snakeCase = (name: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Converts every key of a type to camel case, read-only all the way down. */
export type CamelKeys<T> = T extends readonly (infer Item)[]
  ? readonly CamelKeys<Item>[]
  : T extends object
    ? { readonly [K in keyof T as CamelCase<K & string>]: CamelKeys<T[K]> }
    : T

/** Returns a frozen copy of a plain value with its keys in camel case. */
export function camelKeys<T>(value: T): CamelKeys<T>
export function camelKeys(value: unknown): unknown {
  if (Array.isArray(value)) return Object.freeze(value.map((item: unknown) => camelKeys(item)))
  if (typeof value !== 'object' || value === null) return value
  return Object.freeze(
    Object.fromEntries(Object.entries(value).map(([key, member]) => [camelCase(key), camelKeys(member)])),
  )
}
