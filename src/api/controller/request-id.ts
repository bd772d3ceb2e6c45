import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const WELL_FORMED = /^[A-Za-z0-9._-]{1,128}$/

/** The client's own id where it is well formed, so that its log and ours can be joined; else a new one. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && WELL_FORMED.test(given) ? given : newRequestId()
}

export const newRequestId = (): string => `req-${randomBytes(8).toString('hex')}`
