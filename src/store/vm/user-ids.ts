import type { UserId } from '../../core/ids.ts'
import type { Statements } from '../database/transactions.ts'

/** The range of numeric users that VMs may get. */
export type UserIdRange = { readonly first: number; readonly count: number }

/** Returns the range that `[vms]` of the configuration gives. */
export const userIdRangeOf = (vms: {
  readonly userIdFirst: number
  readonly userIdCount: number
}): UserIdRange => ({ first: vms.userIdFirst, count: vms.userIdCount })

/**
 * Returns the next user id that no VM has after `last`, or after the highest that one has, wrapping at the end of the
 * range. So an id stays unused for as long as possible. What a late process or a forgotten file of the former owner could
 * do then harms no other VM.
 */
export function nextUserId(
  statements: Statements,
  range: UserIdRange,
  last: UserId | undefined,
): UserId | undefined {
  const before = last ?? highestUsed(statements) ?? range.first - 1
  const taken = statements.of('SELECT 1 FROM vms WHERE user_id = ?')
  const start = before + 1 - range.first
  for (let offset = 0; offset < range.count; offset += 1) {
    const candidate = range.first + ((((start + offset) % range.count) + range.count) % range.count)
    if (taken.get(candidate) === undefined) return candidate as UserId
  }
  return undefined
}

const highestUsed = (statements: Statements): number | null =>
  statements.of('SELECT max(user_id) AS highest FROM vms').get()?.['highest'] as number | null
