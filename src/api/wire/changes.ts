import { isDeepStrictEqual } from 'node:util'

/** One member that differs. A new member has no `from`; a removed member has no `to`. */
export type MemberChange = { readonly pointer: string; readonly from?: unknown; readonly to?: unknown }

/** Returns the members in which two JSON values differ. Compares objects at every depth, and lists as a whole. */
export function changesBetween(from: unknown, to: unknown, pointer = ''): readonly MemberChange[] {
  if (isDeepStrictEqual(from, to)) return []
  if (!isObject(from) || !isObject(to)) {
    return [{ pointer, ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }]
  }
  const names = new Set([...Object.keys(from), ...Object.keys(to)])
  return [...names].flatMap((name) =>
    changesBetween(from[name], to[name], `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  )
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
