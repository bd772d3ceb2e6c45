import { randomFillSync } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const WELL_FORMED = /^[A-Za-z0-9._-]{1,128}$/

/** Returns the client's own id if it is well formed, so that its log and ours can be joined; otherwise a new id. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  const id = typeof given === 'string' && WELL_FORMED.test(given) ? given : newRequestId()
  if (request.headers.upgrade !== undefined) ofUpgrades.set(request, id)
  return id
}

/** Ids of requests for an upgrade, which is not answered by the framework. */
const ofUpgrades = new WeakMap<IncomingMessage, string>()

/** Returns the id that a request for an upgrade was given. */
export const upgradeIdOf = (request: IncomingMessage): string | undefined => ofUpgrades.get(request)

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
