import { scriptlessHeaders } from './answers.ts'
import { escapeHtml, htmlPage } from './html-page.ts'

const STYLE = `:root{color-scheme:light dark;background:light-dark(#fff,#14161a);color:light-dark(#1b1f24,#e6e9ed)}body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #8886;padding:.4rem .6rem;text-align:left;vertical-align:top}
code{font:14px ui-monospace,monospace;overflow-wrap:anywhere}td:first-child code{overflow-wrap:normal}tr:target{background:#fd08}
@media(max-width:50rem){tbody,tr,td{display:block}tr{border-bottom:1px solid #8886;padding:.6rem 0}tr:has(th){display:none}
td{border:0;padding:.1rem .4rem}td:first-child{font-weight:bold}td:not(:first-child)::before{content:attr(data-heading) ': ';color:light-dark(#59636e,#9aa4b0)}}`

/** Headers of {@link errorsPage}. */
export const errorsPageHeaders: Readonly<Record<string, string>> = scriptlessHeaders(STYLE)

/**
 * Renders `docs/errors.md` as a page. The file has only headings, paragraphs and tables. A table row whose first cell
 * is a code gets that code as its anchor; the `type` of a problem points to it.
 */
export function errorsPage(markdown: string): string {
  const blocks = markdown.trim().split(/\n{2,}/)
  return htmlPage({ title: 'vmhostd error codes', style: STYLE, main: blocks.map(block).join('\n') })
}

function block(text: string): string {
  const heading = /^(#{1,3}) (.*)$/.exec(text)
  if (heading !== null) return `<h${heading[1]?.length}>${inline(heading[2] ?? '')}</h${heading[1]?.length}>`
  return text.startsWith('|') ? table(text) : `<p>${inline(text)}</p>`
}

function table(text: string): string {
  const [head = '', , ...rows] = text.split('\n')
  const cells = (row: string): string[] =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim())
  const headings = cells(head)
  const body = rows.map((row) => {
    const anchor = /^\| *`(\w+)`/.exec(row)?.[1]
    const columns = cells(row).map(
      // On a page too narrow for columns, the heading stands before the cell.
      (cell, column) => `<td data-heading="${escapeHtml(headings[column] ?? '')}">${inline(cell)}</td>`,
    )
    return `<tr${anchor === undefined ? '' : ` id="${anchor}"`}>${columns.join('')}</tr>`
  })
  const headingCells = headings.map((heading) => `<th>${inline(heading)}</th>`)
  return `<table>\n<tr>${headingCells.join('')}</tr>\n${body.join('\n')}\n</table>`
}

/** Renders code spans, in single or double backticks; everything else is text. */
const inline = (text: string): string =>
  escapeHtml(text).replace(/(`+)(?!`)(.+?)(?<!`)\1(?!`)/g, '<code>$2</code>')
