import { flat, LOWER_BOUNDS, UPPER_BOUNDS } from './flat-schema.ts'
import type { Flat, Pair, Schema, Schemas } from './flat-schema.ts'

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
    ...compareItems(flats, comparison),
    ...compareFurtherMembers(flats, comparison),
    ...compareMemberNames(flats, comparison),
    ...compareChoices(flats, comparison),
  ]
}

const missing = <T>(all: readonly T[], some: readonly T[]): T[] => all.filter((each) => !some.includes(each))

/** Returns whether a schema says nothing of the types of its values. */
const isOfAnyType = ({ types, choices }: Flat): boolean => types.length === 0 && choices.length === 0

function requestFaults({ published, today }: Pair<Flat>): string[] {
  const [before, after] = [published.schema, today.schema]
  const lostTypes = isOfAnyType(today) ? [] : missing(published.types, today.types)
  const hasNewType = isOfAnyType(published) && today.types.length > 0
  const lostValues = after.enum === undefined ? [] : missing(before.enum ?? ['any other value'], after.enum)
  const tightened = [
    ...LOWER_BOUNDS.filter((bound) => (after[bound] ?? -Infinity) > (before[bound] ?? -Infinity)),
    ...UPPER_BOUNDS.filter((bound) => (after[bound] ?? Infinity) < (before[bound] ?? Infinity)),
  ]
  const required = missing(after.required ?? [], before.required ?? [])
  const changed = (['pattern', 'format'] as const).filter(
    (keyword) => after[keyword] !== undefined && after[keyword] !== before[keyword],
  )
  const hasOtherDefault = JSON.stringify(before.default) !== JSON.stringify(after.default)
  return [
    ...lostTypes.map((type) => `is refused as ${type}`),
    ...(hasNewType ? [`is refused unless it is ${today.types.join(' or ')}`] : []),
    ...lostValues.map((value) => `refuses ${JSON.stringify(value)}`),
    ...tightened.map((bound) => `has a tighter bound: ${bound} ${after[bound]}`),
    ...required.map((member) => `needs ${member}`),
    ...changed.map((keyword) => `has another ${keyword}: ${after[keyword]}`),
    ...(hasOtherDefault ? [`has another default: ${JSON.stringify(after.default)}`] : []),
  ]
}

function answerFaults({ published, today }: Pair<Flat>): string[] {
  const newTypes = isOfAnyType(published) ? [] : missing(today.types, published.types)
  const lostItsType = published.types.length > 0 && isOfAnyType(today)
  const optional = missing(published.schema.required ?? [], today.schema.required ?? [])
  const { format } = published.schema
  const lostItsFormat = format !== undefined && format !== today.schema.format
  return [
    ...newTypes.map((type) => `may be ${type}`),
    ...(lostItsType ? ['may be of any type'] : []),
    ...(lostItsFormat ? [`no longer has the format ${format}`] : []),
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

function compareItems({ published, today }: Pair<Flat>, comparison: Comparison): string[] {
  return compareParts({ published: published.schema.items, today: today.schema.items }, comparison, '[]')
}

/** Compares what members may have that the schema does not name. */
function compareFurtherMembers({ published, today }: Pair<Flat>, comparison: Comparison): string[] {
  const [before, after] = [published.schema.additionalProperties, today.schema.additionalProperties]
  if (before === false) return []
  if (after !== false)
    return compareParts({ published: asSchema(before), today: asSchema(after) }, comparison, '[]')
  return comparison.side === 'request' ? [`${comparison.where} refuses members that it does not name`] : []
}

const asSchema = (schema: boolean | Schema | undefined): Schema | undefined =>
  typeof schema === 'object' ? schema : undefined

function compareMemberNames({ published, today }: Pair<Flat>, comparison: Comparison): string[] {
  const pair = { published: published.schema.propertyNames, today: today.schema.propertyNames }
  return compareParts(pair, comparison, ', name of a member,', { type: 'string' })
}

/** Compares the schemas of parts of a value. A part without a schema has that of `otherwise`. */
function compareParts(
  { published, today }: Pair<Schema | undefined>,
  comparison: Comparison,
  place: string,
  otherwise: Schema = {},
): string[] {
  if (published === undefined && today === undefined) return []
  return compareSchema(
    { published: published ?? otherwise, today: today ?? otherwise },
    { ...comparison, where: comparison.where + place },
  )
}

function compareChoices({ published, today }: Pair<Flat>, comparison: Comparison): string[] {
  if (published.choices.length !== today.choices.length)
    return [`${comparison.where} has ${today.choices.length} choices, and had ${published.choices.length}`]
  return published.choices.flatMap((choice, index) =>
    compareSchema({ published: choice, today: today.choices[index] ?? {} }, comparison),
  )
}
