import { stripVTControlCharacters } from 'node:util'

/** Returns one line of foreign text in which nothing can move the cursor or colour what follows. */
export const printable = (text: string): string =>
  // oxlint-disable-next-line no-control-regex -- control characters are what it takes out
  stripVTControlCharacters(text).replaceAll(/[\u0000-\u001F\u007F-\u009F]+/g, ' ')

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
