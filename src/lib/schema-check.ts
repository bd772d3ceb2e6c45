import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'

import { memberPointer, unescapedName } from './json-pointer.ts'
import { nearest } from './text.ts'

/** Options of a schema whose object has no other members. */
export const closed = { additionalProperties: false } as const

/** One thing that is wrong with a value. */
export type Complaint = {
  /** The place, as a JSON pointer (RFC 6901) into the value. */
  readonly pointer: string
  readonly code: ComplaintCode
  /** A phrase that follows the name of the member: "must be between 100 and 32000". */
  readonly detail: string
}

export type ComplaintCode =
  | 'missing'
  | 'unknown_member'
  | 'wrong_type'
  | 'out_of_range'
  | 'not_allowed'
  | 'malformed'
  | 'wrong_length'

/** A longer name is cut when it is repeated to its sender. */
const NAME_CHARACTERS_MAX = 64

/** The validator's shape of an error: that of JSON Schema keywords. */
type Failure = {
  readonly keyword: string
  readonly schemaPath: string
  readonly instancePath: string
  readonly params: object
}

/** The number of failures after which the validator stops too. */
const COMPLAINTS_MAX = 8

/** The keywords of a schema from which the words below come. */
type Rules = {
  readonly type?: string | readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly maxItems?: number
  readonly maxProperties?: number
  readonly pattern?: string
  readonly format?: string
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, unknown>>
  readonly items?: unknown
}

/**
 * Returns a checker for values of `schema`. It returns the complaints, or none if the value fits. It changes and
 * coerces nothing. It never repeats a value, so that a secret in the wrong place is not sent back. `patternWords`
 * describes each pattern of the schema in words ("must be …"). The validator stops collecting after eight failures. It
 * is compiled with the first value, because it takes milliseconds and most schemas of a daemon never see one.
 */
export function checkerFor(
  schema: TSchema,
  patternWords: ReadonlyMap<string, string>,
): (value: unknown) => readonly Complaint[] {
  let validator: ReturnType<typeof Compile<TSchema>> | undefined
  return (value) => {
    validator ??= Compile(schema)
    if (validator.Check(value)) return []
    const tooLong = farTooLong(schema, value, '')
    if (tooLong.length > 0) return tooLong.slice(0, COMPLAINTS_MAX)
    return validator.Errors(value).flatMap((failure) => complaintsOf(schema, patternWords, failure))
  }
}

/**
 * Finds strings of more than twice their length. They are reported alone: the validator explains a failure by testing
 * each pattern too, whatever the length is, and that may take a time that grows with its square.
 */
function farTooLong(rules: unknown, value: unknown, pointer: string): readonly Complaint[] {
  // What the schema does not describe may be nested without end.
  if (rules === undefined) return []
  const { maxLength, items, properties } = rules as Rules
  if (typeof value === 'string')
    return maxLength !== undefined && value.length > 2 * maxLength
      ? [{ pointer, code: 'wrong_length', detail: lengthWords({ type: 'string', maxLength }) }]
      : []
  if (Array.isArray(value))
    return value.flatMap((one, index) => farTooLong(items, one, `${pointer}/${index}`))
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, one]) =>
    farTooLong(properties?.[name], one, memberPointer(pointer, name)),
  )
}

function complaintsOf(
  schema: TSchema,
  patternWords: ReadonlyMap<string, string>,
  failure: Failure,
): Complaint[] {
  const pointer = failure.instancePath
  const rules = rulesAt(schema, failure.schemaPath)
  const one = (code: ComplaintCode, detail: string): Complaint[] => [{ pointer, code, detail }]
  switch (failure.keyword) {
    case 'required':
      return namesIn(failure.params, 'requiredProperties').map((name) => ({
        pointer: memberPointer(pointer, name),
        code: 'missing',
        detail: 'is missing',
      }))
    // An unknown member fails twice: here, and at the `false` of `additionalProperties`, which comes first.
    case 'additionalProperties':
      return []
    // A name that is not allowed also fails twice: here, and at the rule that it breaks.
    case 'propertyNames':
      return []
    // If no form of a value fits, each of them fails too.
    case 'anyOf':
      return []
    case 'boolean':
      return [
        unknownMember(pointer, rulesAt(schema, failure.schemaPath.replace(/\/additionalProperties$/, ''))),
      ]
    case 'type': {
      const others = otherForms(schema, failure.schemaPath)
      // The other forms of a value that may be null say what is wrong with it.
      if (rules.type === 'null' && others.length > 0) return []
      const orNull = others.some(({ type }) => type === 'null') ? ['null'] : []
      return one('wrong_type', `must be ${typeWords([...[rules.type ?? []].flat(), ...orNull])}`)
    }
    case 'minimum':
    case 'maximum':
      return one('out_of_range', rangeWords(rules, failure.keyword))
    case 'minLength':
    case 'maxLength':
    case 'maxItems':
    case 'maxProperties':
      return one('wrong_length', lengthWords(rules))
    case 'enum':
      return one('not_allowed', `must be one of ${(rules.enum ?? []).map(String).join(', ')}`)
    case 'pattern':
      return one('malformed', patternWords.get(rules.pattern ?? '') ?? `must match ${rules.pattern}`)
    case 'format':
      return one('malformed', FORMAT_WORDS.get(rules.format) ?? `must be a ${rules.format}`)
    default:
      return one('malformed', 'is not valid')
  }
}

function unknownMember(pointer: string, parent: Rules): Complaint {
  const slash = pointer.lastIndexOf('/')
  const name = unescapedName(pointer.slice(slash + 1))
  const long = name.length > NAME_CHARACTERS_MAX
  const near = long ? undefined : nearest(name, Object.keys(parent.properties ?? {}))
  return {
    pointer: long
      ? memberPointer(pointer.slice(0, slash), `${name.slice(0, NAME_CHARACTERS_MAX)}…`)
      : pointer,
    code: 'unknown_member',
    detail: near === undefined ? 'is not known here' : `is not known here; did you mean ${near}?`,
  }
}

const TYPE_WORDS: ReadonlyMap<string | undefined, string> = new Map([
  ['string', 'a string'],
  ['integer', 'a whole number'],
  ['number', 'a number'],
  ['boolean', 'true or false'],
  ['object', 'an object'],
  ['array', 'a list'],
  ['null', 'null'],
])

/** Names all types if a value may have several. */
const typeWords = (types: readonly string[]): string =>
  types.map((name) => TYPE_WORDS.get(name) ?? name).join(' or ') || 'of a different type'

const FORMAT_WORDS: ReadonlyMap<string | undefined, string> = new Map([
  ['ipv4', 'must be an IPv4 address'],
  ['ipv6', 'must be an IPv6 address'],
  ['date-time', 'must be a time in RFC 3339, e.g. 2030-01-01T12:00:00Z'],
])

/** Names both bounds of a range; of one that ends where exact numbers end, only the bound that is `broken`. */
function rangeWords({ minimum, maximum }: Rules, broken: 'minimum' | 'maximum'): string {
  const isWide = maximum === Number.MAX_SAFE_INTEGER
  if (maximum === undefined || (isWide && broken === 'minimum')) return `must be at least ${minimum}`
  if (minimum === undefined || isWide) return `must be at most ${maximum}`
  return `must be between ${minimum} and ${maximum}`
}

function lengthWords({ minLength, maxLength, maxItems, maxProperties }: Rules): string {
  if (maxProperties !== undefined)
    return `must have at most ${maxProperties} ${maxProperties === 1 ? 'member' : 'members'}`
  if (maxItems !== undefined) return `must have at most ${maxItems} items`
  if (maxLength === undefined)
    return minLength === 1 ? 'must not be empty' : `must have at least ${minLength} characters`
  if (minLength === undefined) return `must have at most ${maxLength} characters`
  return `must have ${minLength} to ${maxLength} characters`
}

function namesIn(params: object, key: string): readonly string[] {
  const names: unknown = Reflect.get(params, key)
  return Array.isArray(names) ? names.map(String) : []
}

/** Returns the schema that a failure is about; its path is a JSON pointer in URI fragment form, `#/properties/…`. */
function rulesAt(schema: TSchema, path: string): Rules {
  const names = path.split('/').slice(1)
  let current: unknown = schema
  for (const name of names) {
    if (typeof current !== 'object' || current === null) return {}
    current = Reflect.get(current, unescapedName(name))
  }
  return typeof current === 'object' && current !== null ? current : {}
}

/** Returns the forms that a value may have beside the one at this path. */
function otherForms(schema: TSchema, path: string): readonly Rules[] {
  const [, before, form] = /^(.*\/anyOf)\/(\d+)$/.exec(path) ?? []
  const forms: unknown = before === undefined ? [] : rulesAt(schema, before)
  return Array.isArray(forms) ? forms.filter((_, index) => index !== Number(form)) : []
}
