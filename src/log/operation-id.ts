import { randomBytes } from 'node:crypto'

import type { OperationId } from '../core/ids.ts'

/**
 * Returns an id for one accepted mutation: `op-`, the time in milliseconds as 12 hexadecimal digits, and 12 random
 * ones. Ids sort by time, so a log and a list of operations are in order.
 */
export function newOperationId(nowMs: number = Date.now()): OperationId {
  const time = nowMs.toString(16).padStart(12, '0')
  return `op-${time}${randomBytes(6).toString('hex')}` as OperationId
}
