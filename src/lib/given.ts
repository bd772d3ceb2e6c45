/** The members of a type with those that may be undefined made optional. */
export type Given<T> = {
  [K in keyof T as undefined extends T[K] ? never : K]: T[K]
} & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>
}

/** Returns the members that are not undefined. */
export function given<T extends object>(members: T): Given<T> {
  const kept: Partial<T> = {}
  for (const name in members) if (members[name] !== undefined) kept[name] = members[name]
  return kept as unknown as Given<T>
}
