import type { UserId } from '../core/vm/ids.ts'

/** The numeric users that VMs may be given. */
export type UserIdRange = { readonly first: number; readonly count: number }

/**
 * The next free user id after `last`, going round the range, so that an id rests as long as possible before it is used
 * again: what a late process or a forgotten file of the former owner could do, it does to nobody.
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
