/** Returns whether two values as JSON has them are equal. The order of members does not matter. */
export function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (!hasMembers(a) || !hasMembers(b) || Array.isArray(a) !== Array.isArray(b)) return false
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].every((name) => isSame(a[name], b[name]))
}

/** Accepts an array too, whose members are its items. */
const hasMembers = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null
