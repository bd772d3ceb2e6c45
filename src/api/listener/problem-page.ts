import { scriptlessHeaders } from './answers.ts'
import { escapeHtml, htmlPage } from './html-page.ts'
import type { IncomingMessage } from 'node:http'
import type { Problem } from '../wire/problem.ts'

/** Pages of an API, where a browser gets refusals as pages too. */
export type Pages = {
  /** Path that all pages begin with. */
  readonly prefix: string
  /** Where a refused reader can go on, and what it is called. */
  readonly home: string
  readonly homeWords: string
}

/** Returns whether a browser opened a page, rather than a program or a script of a page that asked for something. */
export const opensPage = ({ url = '', headers }: IncomingMessage, { prefix }: Pages): boolean =>
  url.startsWith(prefix) && (headers.accept ?? '').includes('text/html')

const STYLE = `:root{color-scheme:light dark;background:light-dark(#fff,#14161a);color:light-dark(#1b1f24,#e6e9ed)}body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem;overflow-wrap:anywhere}
h1{font-size:1.3rem}a{color:light-dark(#0a58ca,#78b0ff)}small{color:light-dark(#59636e,#9aa4b0)}`

/** Headers of {@link plainPage}. */
export const plainPageHeaders: Readonly<Record<string, string>> = scriptlessHeaders(STYLE)

export const problemPageHeaders: Readonly<Record<string, string>> = {
  ...plainPageHeaders,
  'content-type': 'text/html; charset=utf-8',
  vary: 'accept',
}

/** Titles for people who opened a page and sent no request that they know of. */
const TITLES: Readonly<Record<string, string>> = {
  not_found: 'There is no such page',
  invalid_request: 'The address of this page is not right',
  role_required: 'Your certificate does not open this page',
  forbidden: 'This host does not know your certificate',
  internal: 'The daemon made a mistake',
}

/** Shows a problem in plain words, with a way on. */
export function problemPage(problem: Problem, { home, homeWords }: Pages): string {
  const { code, status, request_id: request } = problem
  return plainPage(TITLES[code] ?? problem.title, [
    escapeHtml(sentence(wordsOf(problem))),
    // Without a known certificate, every page is refused.
    ...(code === 'forbidden' ? [] : [linkTo(home, homeWords)]),
    `<small>${status} ${escapeHtml(code)}, request ${escapeHtml(request)}</small>`,
  ])
}

/** Returns a page with a title, which is text, and paragraphs, which are markup. */
export function plainPage(title: string, paragraphs: readonly string[]): string {
  const lines = [`<h1>${escapeHtml(title)}</h1>`, ...paragraphs.map((paragraph) => `<p>${paragraph}</p>`)]
  return htmlPage({ title, style: STYLE, main: lines.join('\n') })
}

/** Returns a link as markup. */
export const linkTo = (href: string, words: string): string =>
  `<a href="${escapeHtml(href)}">${escapeHtml(words)}</a>`

/** Returns the detail, without the pointer of an id: a reader of a page sees no path parameter. */
function wordsOf({ detail, errors = [] }: Problem): string {
  const [first] = errors
  return first?.pointer === '/id' ? `the name in the address ${first.detail}` : detail
}

const sentence = (words: string): string =>
  `${words.charAt(0).toUpperCase()}${words.slice(1)}${words.endsWith('.') ? '' : '.'}`
