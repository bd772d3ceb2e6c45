/** `user_id_first` becomes `userIdFirst`. */
export type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S

/** `userIdFirst` becomes `user_id_first`. */
export type SnakeCase<S extends string> = S extends `${infer Letter}${infer Rest}`
  ? Letter extends Capitals
    ? `_${Lowercase<Letter>}${SnakeCase<Rest>}`
    : `${Letter}${SnakeCase<Rest>}`
  : S

type Capitals =
  | ('A' | 'B' | 'C' | 'D' | 'E' | 'F' | 'G' | 'H' | 'I' | 'J' | 'K' | 'L' | 'M')
  | ('N' | 'O' | 'P' | 'Q' | 'R' | 'S' | 'T' | 'U' | 'V' | 'W' | 'X' | 'Y' | 'Z')

export const camelCase = (name: string): string =>
  name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

export const snakeCase = (name: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

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
    Object.fromEntries(Object.entries(value).map(([key, member]) => [camelCase(key), camelKeys(member)])),
  )
}
