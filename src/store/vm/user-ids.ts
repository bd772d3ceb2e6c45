import { Meta } from '../database/meta.ts'
import type { DatabaseSync } from 'node:sqlite'
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
 * Returns the next user id that no VM has, and none without a record ({@link reserveUserIds}), after `last`, or after
 * the highest that one has, wrapping at the end of the range. So an id stays unused for as long as possible. What a
 * late process or a forgotten file of the former owner could do then harms no other VM.
 */
export function nextUserId(
  statements: Statements,
  range: UserIdRange,
  last: UserId | undefined,
): UserId | undefined {
  const before = last ?? highestUsed(statements) ?? range.first - 1
  const taken = statements.of(
    `SELECT 1 FROM vms WHERE user_id = ?1
     UNION ALL SELECT 1 FROM meta, json_each(meta.value) WHERE meta.key = '${RESERVED}' AND json_each.value = ?1`,
  )
  const start = before + 1 - range.first
  for (let offset = 0; offset < range.count; offset += 1) {
    const candidate = range.first + ((((start + offset) % range.count) + range.count) % range.count)
    if (taken.get(candidate) === undefined) return candidate as UserId
  }
  return undefined
}

const highestUsed = (statements: Statements): number | null =>
  statements.of('SELECT max(user_id) AS highest FROM vms').get()?.['highest'] as number | null

/** The key in `meta` of a JSON array. */
const RESERVED = 'reserved_user_ids'

/** Returns the user ids that VMs on record have. */
export const recordedUserIds = (db: DatabaseSync): readonly number[] =>
  db
    .prepare('SELECT user_id FROM vms')
    .all()
    .map((row) => Number(row['user_id']))

/**
 * Gives these user ids to no new VM, because VMs of this host without a record have them. They replace those that were
 * reserved. An id that a VM on record has is left out, so it is free again with that VM.
 * The caller gives the transaction.
 */
export function reserveUserIds(db: DatabaseSync, userIds: Iterable<number>): void {
  const recorded = new Set(recordedUserIds(db))
  const reserved = [...new Set(userIds)].filter((userId) => !recorded.has(userId))
  new Meta(db).set(RESERVED, JSON.stringify(reserved.toSorted((a, b) => a - b)))
}

/** Returns the user ids that no new VM gets, although no VM on record has them. */
export const reservedUserIds = (db: DatabaseSync): readonly UserId[] =>
  JSON.parse(new Meta(db).get(RESERVED) ?? '[]') as UserId[]
