/** Writes man pages with the macros of man(7), as groff and mandoc both know them. */

/** Lines of the source stay below this, as mandoc's lint wants. */
const SOURCE_COLUMNS = 78

/** Characters with a meaning of their own in roff, or none in ASCII; see groff_char(7). */
const ESCAPES: Readonly<Record<string, string>> = {
  '\\': String.raw`\e`,
  '-': String.raw`\-`,
  "'": String.raw`\(aq`,
  '"': String.raw`\(dq`,
  '`': String.raw`\(ga`,
  '^': String.raw`\(ha`,
  '~': String.raw`\(ti`,
  '…': '...',
  '→': '->',
}

/** Escapes a text, which may then stand anywhere in a line. */
function escape(text: string): string {
  const escaped = text.replaceAll(/[-\\'"`^~…→]/g, (character) => ESCAPES[character] ?? character)
  const [foreign] = /[^\x20-\x7e]/.exec(escaped) ?? []
  if (foreign !== undefined) throw new Error(`a man page cannot show ${JSON.stringify(foreign)} in: ${text}`)
  return escaped
}

/** Escapes a text that begins a line: a point there would begin a request. */
const asLine = (text: string): string => (text.startsWith('.') ? String.raw`\&` : '') + escape(text)

/** Breaks a text at its spaces into lines of the source. */
function fill(text: string): string {
  const lines: string[] = []
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const last = lines.at(-1)
    const longer = last === undefined ? undefined : `${last} ${escape(word)}`
    if (longer !== undefined && longer.length <= SOURCE_COLUMNS) lines[lines.length - 1] = longer
    else lines.push(asLine(word))
  }
  return lines.join('\n')
}

export type Title = {
  readonly name: string
  readonly section: 1 | 8
  readonly date: Date
  readonly version: string
}

export const title = ({ name, section, date, version }: Title): string =>
  `.TH ${escape(name.toUpperCase())} ${section} ${date.toISOString().slice(0, 10)} "vmhostd ${escape(version)}"`

export const heading = (text: string): string => `.SH ${escape(text)}`

export const subheading = (text: string): string => `.SS ${escape(text)}`

export const paragraph = (text: string): string => `.PP\n${fill(text)}`

/** A name with its summary, in the form that apropos(1) reads. */
export const nameLine = (name: string, summary: string): string =>
  `${escape(name)} ${String.raw`\-`} ${escape(summary)}`

/** A command line with its placeholders in italics. */
export const synopsis = (line: string): string => `.PP\n${markUp(line)}`

/** Terms with their explanations. */
export const terms = (entries: readonly (readonly [term: string, text: string])[]): string[] =>
  entries.map(([term, text]) => `.TP\n${markUp(term)}\n${fill(text)}`)

/** Command lines as they are typed, with what they are for. */
export const example = (why: string, lines: readonly string[]): string =>
  [`.PP\n${fill(why)}`, '.PP', '.RS 4', '.EX', ...lines.map((line) => asLine(line)), '.EE', '.RE'].join('\n')

/** References to other pages, as `vmhostd(8)`. */
export const references = (pages: readonly string[]): string =>
  pages
    .map((page, index) => {
      const [, name = '', section = ''] = /^(.+)\((\d)\)$/.exec(page) ?? []
      return `.BR ${escape(name)} (${section})${index < pages.length - 1 ? ',' : ''}`
    })
    .join('\n')

/** Writes a text with a capital and a full stop. */
export const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`

/** Sets words in capitals in italics, as placeholders are, and all other words in bold. */
const markUp = (line: string): string =>
  line
    .split(' ')
    .map((word) => word.replaceAll(/[A-Z][A-Z0-9_]*=?[A-Z0-9_]*|[^A-Z]+/g, (part) => markPart(part)))
    .join(' ')

function markPart(part: string): string {
  const font = /^[A-Z]/.test(part) ? 'I' : /[a-z]/.test(part) ? 'B' : 'R'
  return font === 'R' ? escape(part) : String.raw`\f` + font + escape(part) + String.raw`\fR`
}

/** Joins the parts of a page. A heading begins a paragraph by itself. */
export const page = (parts: readonly string[]): string =>
  `${parts.join('\n').replaceAll(/^(\.S[HS] .*\n)\.PP\n/gm, '$1')}\n`
