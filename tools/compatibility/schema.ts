/** Compares a schema of the published API with that of today. */

/** A schema of an OpenAPI 3.1 document, as far as a client can notice a change of it. */
export type Schema = {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly default?: unknown
  readonly pattern?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly additionalProperties?: boolean | Schema
  readonly anyOf?: readonly Schema[]
} & Readonly<Partial<Record<Bound, number>>>

const LOWER_BOUNDS = ['minimum', 'minLength', 'minItems', 'minProperties'] as const
const UPPER_BOUNDS = ['maximum', 'maxLength', 'maxItems', 'maxProperties'] as const
type Bound = (typeof LOWER_BOUNDS)[number] | (typeof UPPER_BOUNDS)[number]

export type Schemas = Readonly<Record<string, Schema>>

/** A schema of both documents. */
export type Pair<T> = { readonly published: T; readonly today: T }

export type Comparison = {
  /** Whether clients send it or read it. What they send may only become wider, what they read only narrower. */
  readonly side: 'request' | 'answer'
  /** Named schemas of both documents. */
  readonly schemas: Pair<Schemas>
  /** Place in the API, for the findings. */
  readonly where: string
}

/** Returns what a client of the published schema would notice as broken, one sentence each. */
export function compareSchema(pair: Pair<Schema>, comparison: Comparison): string[] {
  const published = flat(pair.published, comparison.schemas.published)
  const today = flat(pair.today, comparison.schemas.today)
  const flats = { published, today }
  const own = comparison.side === 'request' ? requestFaults(flats) : answerFaults(flats)
  return [
    ...own.map((fault) => `${comparison.where} ${fault}`),
    ...compareMembers(flats, comparison),
    ...comparePart('items', flats, comparison),
    ...comparePart('additionalProperties', flats, comparison),
    ...compareChoices(flats, comparison),
  ]
}

/** A schema without references, and without null as a choice of its own. */
type Flat = {
  readonly schema: Schema
  readonly types: readonly string[]
  readonly choices: readonly Schema[]
}

function flat(schema: Schema, schemas: Schemas): Flat {
  const name = schema.$ref?.split('/').at(-1)
  if (name !== undefined) return flat(schemas[name] ?? {}, schemas)
  if (schema.anyOf === undefined) return { schema, types: [schema.type ?? []].flat(), choices: [] }
  const choices = schema.anyOf.filter(({ type }) => type !== 'null')
  const ofNull = choices.length < schema.anyOf.length ? ['null'] : []
  const [only] = choices
  if (only === undefined || choices.length > 1) return { schema: {}, types: ofNull, choices }
  const inner = flat(only, schemas)
  return { ...inner, types: [...inner.types, ...ofNull] }
}

const missing = <T>(all: readonly T[], some: readonly T[]): T[] => all.filter((each) => !some.includes(each))

function requestFaults({ published, today }: Pair<Flat>): string[] {
  const [before, after] = [published.schema, today.schema]
  const lostTypes = today.types.length === 0 ? [] : missing(published.types, today.types)
  const lostValues = after.enum === undefined ? [] : missing(before.enum ?? ['any other value'], after.enum)
  const tightened = [
    ...LOWER_BOUNDS.filter((bound) => (after[bound] ?? -Infinity) > (before[bound] ?? -Infinity)),
    ...UPPER_BOUNDS.filter((bound) => (after[bound] ?? Infinity) < (before[bound] ?? Infinity)),
  ]
  const required = missing(after.required ?? [], before.required ?? [])
  const hasOtherPattern = after.pattern !== undefined && after.pattern !== before.pattern
  const hasOtherDefault = JSON.stringify(before.default) !== JSON.stringify(after.default)
  return [
    ...lostTypes.map((type) => `is refused as ${type}`),
    ...lostValues.map((value) => `refuses ${JSON.stringify(value)}`),
    ...tightened.map((bound) => `has a tighter bound: ${bound} ${after[bound]}`),
    ...required.map((member) => `needs ${member}`),
    ...(hasOtherPattern ? [`has another pattern: ${after.pattern}`] : []),
    ...(hasOtherDefault ? [`has another default: ${JSON.stringify(after.default)}`] : []),
  ]
}

function answerFaults({ published, today }: Pair<Flat>): string[] {
  const newTypes = published.types.length === 0 ? [] : missing(today.types, published.types)
  const optional = missing(published.schema.required ?? [], today.schema.required ?? [])
  return [
    ...newTypes.map((type) => `may be ${type}`),
    ...optional
      .filter((member) => today.schema.properties?.[member] !== undefined)
      .map((member) => `may lack ${member}`),
  ]
}

function compareMembers({ published, today }: Pair<Flat>, comparison: Comparison): string[] {
  const members = Object.entries(published.schema.properties ?? {})
  return members.flatMap(([name, schema]) => {
    const where = `${comparison.where}.${name}`
    const now = today.schema.properties?.[name]
    return now === undefined
      ? [`${where} is gone`]
      : compareSchema({ published: schema, today: now }, { ...comparison, where })
  })
}

function comparePart(
  part: 'items' | 'additionalProperties',
  { published, today }: Pair<Flat>,
  comparison: Comparison,
): string[] {
  const [before, after] = [published.schema[part], today.schema[part]]
  if (typeof before !== 'object' || typeof after !== 'object') return []
  return compareSchema({ published: before, today: after }, { ...comparison, where: `${comparison.where}[]` })
}

function compareChoices({ published, today }: Pair<Flat>, comparison: Comparison): string[] {
  if (published.choices.length !== today.choices.length)
    return [`${comparison.where} has ${today.choices.length} choices, and had ${published.choices.length}`]
  return published.choices.flatMap((choice, index) =>
    compareSchema({ published: choice, today: today.choices[index] ?? {} }, comparison),
  )
}
