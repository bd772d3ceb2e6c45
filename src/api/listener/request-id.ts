import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const WELL_FORMED = /^[A-Za-z0-9._-]{1,128}$/

/** Returns the client's own id if it is well formed, so that its log and ours can be joined; otherwise a new id. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && WELL_FORMED.test(given) ? given : newRequestId()
}

export const newRequestId = (): string => `req-${randomBytes(8).toString('hex')}`
