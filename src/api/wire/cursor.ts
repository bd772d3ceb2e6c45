import { Type } from 'typebox'
import { parseSha256, parseVmId } from '../../core/vm/ids.ts'

/** The lists that have pages. A cursor names its own, so that one of another list is noticed. */
export type ListName = 'vms' | 'snapshots' | 'images'

/** Where a page ended. Opaque to the client: how a page is continued may change. */
export const cursorAfter = (list: ListName, id: string): string =>
  Buffer.from(`${list}:${id}`).toString('base64url')

/** The id a page ended with, or undefined where the text is no cursor of that list. */
export function parseCursor(list: ListName, cursor: string): string | undefined {
  const text = Buffer.from(cursor, 'base64url').toString()
  const prefix = `${list}:`
  if (!text.startsWith(prefix)) return undefined
  const id = text.slice(prefix.length)
  // All ids that a controller chooses have the same form.
  return list === 'images' ? parseSha256(id) : parseVmId(id)
}

/** Of every list, beside its items. */
export const nextPageMembers = {
  next_cursor: Type.Optional(
    Type.String({ description: 'Pass it as `cursor` for the next page; absent on the last one.' }),
  ),
}
