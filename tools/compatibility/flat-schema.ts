/** Schemas of an OpenAPI 3.1 document, as far as a client can notice a change of one. */

export const LOWER_BOUNDS = ['minimum', 'minLength', 'minItems', 'minProperties'] as const
export const UPPER_BOUNDS = ['maximum', 'maxLength', 'maxItems', 'maxProperties'] as const
type Bound = (typeof LOWER_BOUNDS)[number] | (typeof UPPER_BOUNDS)[number]

export type Schema = {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly default?: unknown
  readonly pattern?: string
  readonly format?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly additionalProperties?: boolean | Schema
  readonly propertyNames?: Schema
  readonly anyOf?: readonly Schema[]
} & Readonly<Partial<Record<Bound, number>>>

/** The keywords that are compared. A schema with another one must not pass unnoticed: a test looks for it. */
export const KEYWORDS: ReadonlySet<string> = new Set([
  ...LOWER_BOUNDS,
  ...UPPER_BOUNDS,
  ...['$ref', 'type', 'enum', 'default', 'pattern', 'format', 'properties', 'required', 'items'],
  ...['additionalProperties', 'propertyNames', 'anyOf'],
])

export type Schemas = Readonly<Record<string, Schema>>

/** A schema of both documents. */
export type Pair<T> = { readonly published: T; readonly today: T }

/** A schema without references, and without null as a choice of its own. */
export type Flat = {
  readonly schema: Schema
  /** Empty if every type is allowed. */
  readonly types: readonly string[]
  readonly choices: readonly Schema[]
}

export function flat(schema: Schema, schemas: Schemas): Flat {
  const name = schema.$ref?.split('/').at(-1)
  if (name !== undefined) return flat(schemas[name] ?? {}, schemas)
  if (schema.anyOf === undefined) return { schema, types: typesOf(schema), choices: [] }
  const choices = schema.anyOf.filter(({ type }) => type !== 'null')
  const ofNull = choices.length < schema.anyOf.length ? ['null'] : []
  const [only] = choices
  if (only === undefined || choices.length > 1) return { schema: {}, types: ofNull, choices }
  const inner = flat(only, schemas)
  return { ...inner, types: inner.types.length === 0 ? [] : [...inner.types, ...ofNull] }
}

function typesOf({ type, enum: values = [] }: Schema): string[] {
  if (type === undefined) return [...new Set(values.map(typeOfValue))]
  const types = [type].flat()
  return types.includes('number') ? [...types, 'integer'] : types
}

function typeOfValue(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}
