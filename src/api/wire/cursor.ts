import { Type } from 'typebox'
import { parseSha256, parseVmId } from '../../core/ids.ts'

/** Lists that have pages. A cursor names its list, so that a cursor of another list is refused. */
export type ListName = 'vms' | 'snapshots' | 'images'

/** Returns the cursor that marks the end of a page. It is opaque to the client, because its form may change. */
export const cursorAfter = (list: ListName, id: string): string =>
  Buffer.from(`${list}:${id}`).toString('base64url')

/** Returns the id that a page ended with; undefined if the text is not a cursor of that list. */
export function parseCursor(list: ListName, cursor: string): string | undefined {
  const text = Buffer.from(cursor, 'base64url').toString()
  const prefix = `${list}:`
  if (!text.startsWith(prefix)) return undefined
  const id = text.slice(prefix.length)
  // All ids that a controller chooses have the same form.
  return list === 'images' ? parseSha256(id) : parseVmId(id)
}

/** Members of every list, beside its items. */
export const nextPageMembers = {
  next_cursor: Type.Optional(
    Type.String({ description: 'Pass it as `cursor` for the next page; absent on the last one.' }),
  ),
}
