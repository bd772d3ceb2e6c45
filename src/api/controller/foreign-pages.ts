import { Refused } from '../listener/refused.ts'
import type { FastifyRequest } from 'fastify'

/**
 * Refuses a page of another origin. A browser may send its request with no Origin header, and that would still open a
 * shell.
 */
export function refuseForeignOrigin(request: FastifyRequest): void {
  const { headers, protocol } = request
  const { origin, host } = headers
  const own = `${protocol}://${host}`
  const isOwn = origin === undefined || origin.toLowerCase() === own.toLowerCase()
  if (isOwn && !isOfForeignSite(request)) return
  const detail = `a page of another origin may not open a console: the Origin header must be ${own}, or not be there`
  throw new Refused({ code: 'forbidden', detail })
}

/**
 * Returns whether a page of another origin made the request or led to it. Browsers send their certificate for any page.
 */
export const isOfForeignSite = ({ headers }: FastifyRequest): boolean =>
  FOREIGN_SITES.has(String(headers['sec-fetch-site']))

/** Values of Sec-Fetch-Site (W3C, "Fetch Metadata Request Headers"). */
const FOREIGN_SITES: ReadonlySet<string> = new Set(['cross-site', 'same-site'])
