import { MAINTAINER } from './control.ts'

/** Width of Debian's changelogs. */
const COLUMNS = 78

export type ChangelogOptions = {
  /** The version of the package. What is not released yet belongs to it. */
  readonly version: string
  /** The time of entries without a date. */
  readonly date: Date
}

type Entry = { readonly version: string; readonly date: Date; readonly lines: string[] }

/** Renders the project's changelog in Debian's format: deb-changelog(5). */
export function renderDebianChangelog(markdown: string, options: ChangelogOptions): string {
  return entriesOf(markdown, options)
    .map(({ version, date, lines }) =>
      [
        `vmhostd (${version}) unstable; urgency=medium`,
        lines.join('\n'),
        ` -- ${MAINTAINER}  ${date.toUTCString().replace('GMT', '+0000')}`,
      ].join('\n\n'),
    )
    .join('\n\n')
    .concat('\n')
}

function entriesOf(markdown: string, { version, date }: ChangelogOptions): Entry[] {
  const entries = new Map<string, Entry>()
  const [, ...sections] = markdown.split(/^## /m)
  for (const section of sections) {
    const [, name = '', day] = /^(\S+)(?:.*?(\d{4}-\d\d-\d\d))?/.exec(section) ?? []
    const named = name === 'Unreleased' ? version : name
    const entry = entries.get(named) ?? {
      version: named,
      date: day === undefined ? date : new Date(day),
      lines: [],
    }
    entry.lines.push(...itemsOf(section).map(renderItem))
    entries.set(named, entry)
  }
  return [...entries.values()]
}

/** Returns the list items and paragraphs of a section, each in one line. */
const itemsOf = (section: string): string[] =>
  section
    .replace(/^.*\n/, '')
    .split(/^- |\n\n/m)
    .map((text) => plain(text.replaceAll(/\s+/g, ' ').trim()))
    .filter(Boolean)

/** Takes the marks of Markdown out of a text. */
const plain = (text: string): string => text.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '')

function renderItem(text: string): string {
  const lines = ['  *']
  for (const word of text.split(' ')) {
    const last = lines.at(-1) ?? ''
    if (last.length + 1 + word.length <= COLUMNS) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(`    ${word}`)
  }
  return lines.join('\n')
}
