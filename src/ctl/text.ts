import { showSpan } from '../lib/shown-units.ts'
import { printable } from '../lib/text.ts'
import type { Sink } from './shell.ts'

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const

export type Colour = keyof typeof CODES
export type Paint = (text: string, colour: Colour | undefined) => string

/**
 * Returns a painter for text on a terminal. Elsewhere, or if NO_COLOR is set (no-color.org), it leaves text as it is.
 */
export function paintFor(sink: Sink, noColor: string | undefined): Paint {
  if (!sink.isTty || (noColor ?? '') !== '') return (text) => text
  return (text, colour) => (colour === undefined ? text : `\u001B[${CODES[colour]}m${text}\u001B[0m`)
}

/** Returns a word of the API in words for a person. One that a newer daemon adds is returned as it is. */
export const inWords = (word: string, words: Readonly<Record<string, string>>): string =>
  (Object.hasOwn(words, word) ? words[word] : undefined) ?? word

/** Returns how long before now a time of an answer was. */
export const spanSince = (time: string, nowMs: number): string => showSpan(nowMs - Date.parse(time))

/** Returns that span with the word for the past: `3 min ago`. */
export const ago = (time: string, nowMs: number): string => `${spanSince(time, nowMs)} ago`

export type Cell = { readonly text: string; readonly colour?: Colour | undefined }

type TableOptions = {
  readonly sink: Sink
  readonly paint: Paint
  /**
   * The last column says why, such as an error: a terminal shows it whole below its row, and nothing if it is empty.
   */
  readonly lastBelow?: boolean
}

/** Renders columns as wide as their widest cell. On a terminal a line is cut at its edge; in a pipe it is whole. */
export function renderTable(
  head: readonly string[],
  rows: readonly (readonly (string | Cell)[])[],
  { sink, paint, lastBelow = false }: TableOptions,
): string {
  const cells = rows.map((row) => row.map((cell) => clean(typeof cell === 'string' ? { text: cell } : cell)))
  if (lastBelow && sink.isTty) {
    const upper = cells.map((row) => row.slice(0, -1))
    const lines = renderTable(head.slice(0, -1), upper, { sink, paint }).trimEnd().split('\n')
    return lines
      .map((line, index) => `${line}\n${noteBelow(cells[index - 1]?.at(-1), { sink, paint })}`)
      .join('')
  }
  const table: (readonly Cell[])[] = [head.map((text): Cell => ({ text, colour: 'bold' })), ...cells]
  const widths = head.map((_, column) => Math.max(...table.map((row) => row[column]?.text.length ?? 0)))
  return table.map((row) => `${renderRow(row, widths, { sink, paint })}\n`).join('')
}

const EMPTY = '-'

const clean = ({ text, ...rest }: Cell): Cell =>
  text === '' ? { text: EMPTY } : { ...rest, text: printable(text) }

/** Renders a cell on lines of its own, broken between words. */
function noteBelow(cell: Cell | undefined, { sink, paint }: TableOptions): string {
  if (cell === undefined || cell.text === EMPTY) return ''
  const lines = wrapped(cell.text, columnsOf(sink) - INDENT.length)
  return lines.map((line) => `${INDENT}${paint(line, cell.colour)}\n`).join('')
}

const INDENT = '  '

/** Returns the width of the terminal; a narrower one breaks lines by itself. */
const columnsOf = ({ columns }: Sink): number => Math.max(columns, 40)

/** Returns lines of at most `width` characters. A longer word has a line of its own. */
function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`
    if (longer.length <= width || line === '') {
      line = longer
      continue
    }
    lines.push(line)
    line = word
  }
  return [...lines, line]
}

function renderRow(row: readonly Cell[], widths: readonly number[], { sink, paint }: TableOptions): string {
  let left = sink.isTty ? columnsOf(sink) : Number.POSITIVE_INFINITY
  const parts = row.map(({ text, colour }, column) => {
    const last = column === row.length - 1
    const padded = last ? text : text.padEnd((widths[column] ?? 0) + 2)
    const cut = padded.length <= left ? padded : left > 0 ? `${padded.slice(0, left - 1)}…` : ''
    left -= cut.length
    return paint(cut, colour)
  })
  return parts.join('').trimEnd()
}

export type Fact = readonly [name: string, value: string | undefined, colour?: Colour | undefined]

/** Renders `name  value` lines below a heading, with the values aligned. A name without a value is left out. */
export function renderFacts(facts: readonly Fact[], paint: Paint): string {
  const shown = facts.flatMap(([name, value, colour]) =>
    value === undefined ? [] : [{ name, value: printable(value), colour }],
  )
  const width = Math.max(...shown.map(({ name }) => name.length))
  return shown
    .map(({ name, value, colour }) => `  ${paint(name.padEnd(width), 'dim')}  ${paint(value, colour)}\n`)
    .join('')
}
