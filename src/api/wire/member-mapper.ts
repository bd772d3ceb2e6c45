import { camelCase, snakeCase } from '../../lib/text.ts'
import type { CamelCase, SnakeCase } from '../../lib/text.ts'

/** The two sides of the wire: the domain has camel case, the wire snake case. */
type Names = { readonly toWire: 'snake'; readonly fromWire: 'camel' }

type Renamed<D extends keyof Names, K> = K extends string
  ? Names[D] extends 'snake'
    ? SnakeCase<K>
    : CamelCase<K>
  : never

/**
 * How one member is mapped: not at all, under its own name with another value, or under another name. A value is
 * converted only if it is there.
 */
type Rule<V, Name, To> =
  | null
  | (Name extends keyof To ? (value: Exclude<V, undefined>) => To[Name] : never)
  | { readonly [N in keyof To]-?: readonly [N, (value: Exclude<V, undefined>) => To[N]] }[keyof To]

/** Whether a member is mapped without a rule: the other side has one of its name that takes the same value. */
type Fits<V, Name, To> = Name extends keyof To ? (V extends To[Name] ? true : false) : false

type Rules<D extends keyof Names, From, To> = {
  readonly [K in keyof From as Fits<From[K], Renamed<D, K>, To> extends true ? never : K]-?: Rule<
    From[K],
    Renamed<D, K>,
    To
  >
} & {
  readonly [K in keyof From as Fits<From[K], Renamed<D, K>, To> extends true ? K : never]?: Rule<
    From[K],
    Renamed<D, K>,
    To
  >
}

type NamesMade<D extends keyof Names, From, R> = {
  [K in keyof From]-?: K extends keyof R
    ? R[K] extends readonly [infer N, unknown]
      ? N
      : R[K] extends null
        ? never
        : Renamed<D, K>
    : Renamed<D, K>
}[keyof From]

type Required<To> = { [K in keyof To]-?: object extends Pick<To, K> ? never : K }[keyof To]

/** The function that is made; names instead the members of the result that nothing is mapped to. */
type Mapper<D extends keyof Names, From, To, R> = [Exclude<Required<To>, NamesMade<D, From, R>>] extends [
  never,
]
  ? (value: From) => To
  : { readonly nothingIsMappedTo: Exclude<Required<To>, NamesMade<D, From, R>> }

/**
 * Returns a function that maps the members of a domain value to those of a wire value: each under its name in snake
 * case, unless a rule says otherwise. A member that fits no member of the wire needs a rule, so that nothing new gets
 * onto the wire unseen. Members that are undefined are left out.
 */
export const toWire =
  <From extends object, To extends object>() =>
  <const R extends Rules<'toWire', From, To>>(rules: R): Mapper<'toWire', From, To, R> =>
    mapMembers(snakeCase, rules) as unknown as Mapper<'toWire', From, To, R>

/** Returns a function that maps a wire value to the domain by the same rules, with names in camel case. */
export const fromWire =
  <From extends object, To extends object>() =>
  <const R extends Rules<'fromWire', From, To>>(rules: R): Mapper<'fromWire', From, To, R> =>
    mapMembers(camelCase, rules) as unknown as Mapper<'fromWire', From, To, R>

type Mapping = {
  readonly member: string
  /** Its name on the other side; undefined if it is left out. */
  readonly name: string | undefined
  readonly convert: ((value: unknown) => unknown) | undefined
}

function mapMembers(rename: (name: string) => string, rules: object): (from: object) => object {
  const known = new Map<string, Mapping>()
  const learn = (member: string): Mapping => {
    const mapping = known.get(member) ?? mappingOf(member, rename, rules)
    known.set(member, mapping)
    return mapping
  }
  // A list of all VMs maps the same members in the same order, thousands of times.
  const inOrder: Mapping[] = []
  return (from) => {
    const to: Record<string, unknown> = {}
    let at = 0
    for (const member in from) {
      let mapping = inOrder[at]
      if (mapping === undefined || mapping.member !== member) {
        mapping = learn(member)
        inOrder[at] = mapping
      }
      at += 1
      const { name, convert } = mapping
      const value: unknown = from[member as keyof typeof from]
      if (name === undefined || value === undefined) continue
      to[name] = convert === undefined ? value : convert(value)
    }
    return to
  }
}

function mappingOf(member: string, rename: (name: string) => string, rules: object): Mapping {
  const rule: unknown = Object.hasOwn(rules, member) ? Reflect.get(rules, member) : undefined
  if (rule === null) return { member, name: undefined, convert: undefined }
  if (Array.isArray(rule)) {
    const [name, convert] = rule as unknown as readonly [string, NonNullable<Mapping['convert']>]
    return { member, name, convert }
  }
  return { member, name: rename(member), convert: rule as Mapping['convert'] }
}
