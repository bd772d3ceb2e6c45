import type { UserId } from '../../core/ids.ts'

/** The range of numeric users that VMs may get. */
export type UserIdRange = { readonly first: number; readonly count: number }

/** Returns the range that `[vms]` of the configuration gives. */
export const userIdRangeOf = (vms: {
  readonly userIdFirst: number
  readonly userIdCount: number
}): UserIdRange => ({ first: vms.userIdFirst, count: vms.userIdCount })

/**
 * Returns the next free user id after `last`, wrapping at the end of the range. So an id stays unused for as long as
 * possible. What a late process or a forgotten file of the former owner could do then harms no other VM.
 */
export function nextUserId(
  range: UserIdRange,
  last: number | undefined,
  taken: (userId: number) => boolean,
): UserId | undefined {
  const start = last === undefined ? 0 : last + 1 - range.first
  for (let offset = 0; offset < range.count; offset += 1) {
    const candidate = range.first + ((((start + offset) % range.count) + range.count) % range.count)
    if (!taken(candidate)) return candidate as UserId
  }
  return undefined
}
