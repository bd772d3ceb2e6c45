/** A change of an object: an absent member stays as it is, and `null` removes one that may be absent. */
export type ChangeOf<T> = {
  readonly [K in keyof T]?: Exclude<T[K], undefined> | (object extends Pick<T, K> ? null : never)
}

/** Returns the object after a change. */
export function changed<T extends object>(before: T, change: ChangeOf<T>): T {
  const entries = Object.entries({ ...before, ...change }).filter(([, value]) => value !== null)
  return Object.fromEntries(entries) as T
}
