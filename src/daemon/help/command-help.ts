/** Texts of a command of vmhostd about itself: the source of `--help` and of the man page. */

/** An option with its placeholder, as `--config FILE`, and one sentence or a few about it. */
export type HelpOption = readonly [term: string, help: string]

export type CommandHelp = {
  /** The words after the program's name. */
  readonly name: string
  /** The operand as the overview shows it. */
  readonly operand?: string
  /** For the overview: what the command does, without a full stop. */
  readonly summary: string
  /** Operands and options of a usage line. */
  readonly usage: string
  /** Paragraphs. */
  readonly description: readonly string[]
  readonly options: readonly HelpOption[]
  /** Further options with the words that they stand under. */
  readonly moreOptions?: { readonly lead: string; readonly options: readonly HelpOption[] }
  /** Paragraphs behind the options. */
  readonly notes?: readonly string[]
  /** The meaning of each exit status. */
  readonly exits: readonly (readonly [status: number, meaning: string])[]
}

const COLUMNS = 100
/** Width up to which terms share a line with their help. */
const TERM_COLUMNS_MAX = 24

const THIS_TEXT: HelpOption = ['-h, --help', 'this text']

/** Renders what `vmhostd COMMAND --help` prints. */
export function renderHelp(help: CommandHelp): string {
  const { name, usage, description, options, moreOptions, notes = [], exits } = help
  const statuses = exits.map(([status, meaning]) => `${status} ${meaning}`).join(', ')
  return [
    wrap(`Usage: vmhostd ${name} ${usage}`, 4),
    ...description.map((text) => wrap(text)),
    renderTerms([...options, THIS_TEXT]),
    ...(moreOptions === undefined ? [] : [wrap(moreOptions.lead), renderTerms(moreOptions.options)]),
    ...notes.map((text) => wrap(text)),
    wrap(`Exit status: ${statuses}.`),
  ].join('\n\n')
}

/** Renders terms with their explanations beside them, or below a long term. */
export function renderTerms(entries: readonly (readonly [term: string, text: string])[]): string {
  const width = Math.min(TERM_COLUMNS_MAX, Math.max(...entries.map(([term]) => term.length)))
  return entries
    .map(([term, text]) => {
      const lines = fold(text, COLUMNS - width - 4)
      const beside = term.length <= width
      const [first = '', ...rest] = beside ? lines : ['', ...lines]
      const margin = ' '.repeat(width + 4)
      return [`  ${term.padEnd(width)}  ${first}`.trimEnd(), ...rest.map((line) => margin + line)].join('\n')
    })
    .join('\n')
}

const wrap = (text: string, indent = 0): string => fold(text, COLUMNS, indent).join('\n')

/** Breaks a text into lines at its spaces; lines after the first are indented. */
function fold(text: string, columns: number, indent = 0): string[] {
  const lines: string[] = []
  for (const word of text.split(' ').filter(Boolean)) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= columns)
      lines[lines.length - 1] = `${last} ${word}`
    else lines.push(lines.length === 0 ? word : ' '.repeat(indent) + word)
  }
  return lines
}
