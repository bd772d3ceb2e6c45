/** `user_id_first` becomes `userIdFirst`. */
export type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S

/** Converts every key of a type to camel case, read-only all the way down. */
export type CamelKeys<T> = T extends readonly (infer Item)[]
  ? readonly Item[]
  : T extends object
    ? { readonly [K in keyof T as CamelCase<K & string>]: CamelKeys<T[K]> }
    : T

/** Returns a frozen copy of a plain value with its keys in camel case. */
export function camelKeys<T extends object>(value: T): CamelKeys<T>
export function camelKeys(value: unknown): unknown {
  if (Array.isArray(value)) return Object.freeze([...value])
  if (typeof value !== 'object' || value === null) return value
  return Object.freeze(
    Object.fromEntries(Object.entries(value).map(([key, member]) => [camel(key), camelKeys(member)])),
  )
}

const camel = (key: string): string =>
  key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
