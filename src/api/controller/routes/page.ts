import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { cursorAfter, parseCursor, CURSOR_PATTERN } from '../../wire/values.ts'
import { invalidRequest } from '../../listener/validation.ts'
import type { ListName } from '../../wire/values.ts'

/** Query members of every list. */
export const pageMembers = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: limits.listItemsMax, default: limits.listItemsDefault }),
  ),
  cursor: Type.Optional(
    Type.String({ pattern: CURSOR_PATTERN, description: 'The `next_cursor` of the previous page.' }),
  ),
}

/** Returns the id after which a page begins. Refuses a text that is not a cursor of this list. */
export function afterCursor(list: ListName, cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined
  const after = parseCursor(list, cursor)
  if (after !== undefined) return after
  const detail = 'must be the next_cursor of an earlier answer'
  throw invalidRequest('query', [{ pointer: '/cursor', code: 'malformed', detail }])
}

/**
 * Returns the first `limit` of the records. The caller reads one more record, which shows that another page follows.
 */
export function pageOf<Found extends { readonly id: string }, Shown>(
  list: ListName,
  records: readonly Found[],
  { limit, show }: { readonly limit: number; readonly show: (record: Found) => Shown },
): { items: Shown[]; next_cursor?: string } {
  const page = records.slice(0, limit)
  const last = page.at(-1)
  return {
    items: page.map(show),
    ...(records.length > limit && last !== undefined ? { next_cursor: cursorAfter(list, last.id) } : {}),
  }
}
