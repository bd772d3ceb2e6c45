import { parseVmId } from '../../core/vm/ids.ts'
import type { VmId } from '../../core/vm/ids.ts'

/** Names the kind of list, so that a cursor of another list is noticed. */
const PREFIX = 'vms:'

/** Where a page ended. Opaque to the client: how a page is continued may change. */
export const cursorAfter = (id: VmId): string => Buffer.from(PREFIX + id).toString('base64url')

/** The id a page ended with, or undefined where the text is no cursor of ours. */
export function parseCursor(cursor: string): VmId | undefined {
  const text = Buffer.from(cursor, 'base64url').toString()
  return text.startsWith(PREFIX) ? parseVmId(text.slice(PREFIX.length)) : undefined
}
