import { stripVTControlCharacters } from 'node:util'

/** Returns one line of foreign text in which nothing can move the cursor or colour what follows. */
export const printable = (text: string): string =>
  // oxlint-disable-next-line no-control-regex -- control characters are what it takes out
  stripVTControlCharacters(text).replaceAll(/[\u0000-\u001F\u007F-\u009F]+/g, ' ')

/** Does the same as {@link printable} for several lines, which stay lines. */
export const printableLines = (text: string): string =>
  // Escape sequences are removed first, because one may contain a line end.
  stripVTControlCharacters(text).split(/\r*\n/).map(printable).join('\n')
