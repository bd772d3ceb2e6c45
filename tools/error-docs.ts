/* `./dev errors`: makes the tables of docs/errors.md from the catalogue of problems. The prose around them stays. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { faults, rejections } from '../src/core/problems/catalogue.ts'
import { checkout } from './paths.ts'
import { knownStatuses } from '../src/core/monitor/exit-status.ts'
import type { FaultEntry, RejectionEntry } from '../src/core/problems/entry.ts'

export const ERRORS_PAGE = path.join(checkout, 'docs/errors.md')

const TABLES = [
  {
    head: '| Code | Status | Meaning | What to do |\n|---|---|---|---|\n',
    rows: Object.entries(rejections)
      .toSorted(([, one], [, other]) => one.status - other.status)
      .map(([code, entry]) => row(code, `${entry.status}`, entry)),
  },
  {
    head: '| Code | Retry | Meaning | What to do |\n|---|---|---|---|\n',
    rows: Object.entries(faults).map(([code, entry]) => row(code, entry.retry, entry)),
  },
  {
    head: '| Status | Meaning |\n|---|---|\n',
    rows: knownStatuses.map(([status, meaning]) => `| ${status} | ${meaning} |\n`),
  },
]

function row(
  code: string,
  second: string,
  { title, meaning = `${title}.`, remedy, example }: RejectionEntry | FaultEntry,
): string {
  // A code span in double backticks may have single ones.
  const span = example.includes('`') ? `\`\`${example}\`\`` : `\`${example}\``
  const cells = [`\`${code}\``, second, `${meaning} Example: ${span}.`, remedy]
  return `| ${cells.join(' | ')} |\n`
}

/** Returns the page with the rows of its tables made again. */
export function withTables(page: string): string {
  return TABLES.reduce((text, { head, rows }) => {
    const start = text.indexOf(head)
    if (start === -1) throw new Error(`docs/errors.md has no table with this head:\n${head}`)
    const [old = ''] = /^(?:\|.*\n)*/.exec(text.slice(start)) ?? []
    return text.slice(0, start) + head + rows.join('') + text.slice(start + old.length)
  }, page)
}

/** Returns the exit status. */
export async function main(): Promise<number> {
  writeFileSync(ERRORS_PAGE, withTables(readFileSync(ERRORS_PAGE, 'utf8')))
  return 0
}
