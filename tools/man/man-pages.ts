import { clientPages } from './client-pages.ts'
import { daemonPage } from './daemon-page.ts'
import type { Title } from './roff.ts'

/** Renders every man page; returns the texts by the names of their files, as `vmhostd.8`. */
export function manPages(about: Pick<Title, 'date' | 'version'>): Map<string, string> {
  const client = [...clientPages(about)].map(([name, text]) => [`${name}.1`, text] as const)
  return new Map([['vmhostd.8', daemonPage(about)], ...client])
}
