import { randomFillSync } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const WELL_FORMED = /^[A-Za-z0-9._-]{1,128}$/

/** Returns the client's own id if it is well formed, so that its log and ours can be joined; otherwise a new id. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && WELL_FORMED.test(given) ? given : newRequestId()
}

const ID_BYTES = 8
/** Random bytes for the next ids. A call for each id would cost more than the rest of it. */
const pool = Buffer.alloc(256 * ID_BYTES)
let used = pool.length

export function newRequestId(): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += ID_BYTES
  return `req-${pool.toString('hex', used - ID_BYTES, used)}`
}
