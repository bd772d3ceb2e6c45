import { limits } from '../../config/limits.ts'
import { checkerFor } from '../../lib/schema-check.ts'
import { patternWords } from '../wire/values.ts'
import { Refused } from './refused.ts'
import { repeatedMember } from './repeated-member.ts'
import type { FastifyRequest } from 'fastify'
import type { TSchema } from 'typebox'
import type { Complaint } from '../../lib/schema-check.ts'
import type { App } from './app.ts'

/** Names that answers use for the parts of a request. */
const PART_WORDS: Readonly<Record<string, string>> = { body: 'body', querystring: 'query', params: 'path' }

/** A name that a client may have chosen is repeated only if it has this form: it may be a secret, such as a URL. */
const PLAIN_NAME = /^[A-Za-z0-9_.-]{1,64}$/

/** The fault of a part of a request that is there several times: only one could count. */
const REPEATED = { code: 'not_allowed', detail: 'is given more than once' } as const

/**
 * Accepts bodies in JSON and UTF-8 only. Refuses a wrong byte or half a surrogate pair instead of replacing it, and a
 * repeated member: the daemon stores exactly what was sent. Drops JSON.parse's own message, because it quotes the body.
 */
export function parseJsonBodies(app: App): void {
  const utf8 = new TextDecoder('utf-8', { fatal: true })
  const decoded = (body: Buffer): { readonly text: string; readonly value: unknown } => {
    try {
      const text = utf8.decode(body)
      return { text, value: withoutMinusZero(text) }
    } catch {
      throw new Refused({ code: 'invalid_request', detail: 'the body is not valid JSON in UTF-8' })
    }
  }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, body: Buffer): Promise<unknown> => {
      const encoding = request.headers['content-encoding'] ?? 'identity'
      if (encoding !== 'identity') {
        throw new Refused({
          code: 'unsupported_media_type',
          detail: 'send the body without a content encoding',
        })
      }
      if (body.length === 0) return undefined
      const { text, value } = decoded(body)
      const pointer = repeatedMember(text)
      if (pointer !== undefined) throw invalidRequest('body', [{ pointer, ...REPEATED }])
      return value
    },
  )
}

/** Finds a number that JSON.parse may read as -0: one that begins so, or is too small for its type. */
const MAYBE_MINUS_ZERO = /-(?:0|\d[\d.]*e-)/iu

/** Parses JSON with 0 in place of -0, which is stored as 0, and would then differ from what is stored. */
const withoutMinusZero = (text: string): unknown =>
  MAYBE_MINUS_ZERO.test(text)
    ? JSON.parse(text, (_name, value: unknown) => (value === 0 ? 0 : value))
    : JSON.parse(text)

/**
 * Checks requests against their schemas, which may refer to the named ones. Removes and coerces nothing, except for
 * numbers and booleans in a query.
 */
export function validateBySchema(app: App, named: Readonly<Record<string, TSchema>>): void {
  for (const [name, schema] of Object.entries(named)) app.addSchema({ ...schema, $id: name })
  const byReference = new Map<string, TSchema>(
    Object.entries(named).map(([name, schema]) => [`${name}#`, schema]),
  )
  app.setValidatorCompiler<TSchema & { $ref?: string }>(({ schema, httpPart = 'body' }) => {
    const target = byReference.get(schema.$ref ?? '') ?? schema
    const check = checkerFor(target, patternWords)
    return (given: unknown) => {
      const value = httpPart === 'querystring' ? withPlainValues(target, given) : given
      const before = httpPart === 'querystring' ? repeatedIn(given) : []
      if (httpPart === 'body' && given === null && !('required' in target)) before.push(NO_BODY)
      const complaints = before.length > 0 ? before : check(value)
      return complaints.length === 0
        ? { value }
        : { error: invalidRequest(PART_WORDS[httpPart] ?? httpPart, complaints) }
    }
  })
}

/** The refusal of a request whose `part` (body, query, path, headers) has these faults. */
export function invalidRequest(part: string, given: readonly Complaint[]): Refused {
  const complaints = given.map((complaint) => ({ ...complaint, pointer: plainPointer(complaint.pointer) }))
  const [first] = complaints
  const more = complaints.length > 1 ? ` (and ${complaints.length - 1} more)` : ''
  const detail =
    part === 'headers'
      ? `the header ${headerName(first?.pointer)} ${first?.detail}${more}`
      : `the ${part} is not valid: ${first?.pointer || 'it'} ${first?.detail}${more}`
  return new Refused({ code: 'invalid_request', detail, errors: complaints })
}

/** Returns the name of a header as it is usually written, from the pointer to it. */
const headerName = (pointer = ''): string =>
  pointer
    .slice(1)
    .replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase())
    .replace(/-Id$/, '-ID')

/** Puts an ellipsis in place of every name that must not be repeated. */
const plainPointer = (pointer: string): string =>
  pointer
    .split('/')
    .map((name) => (name === '' || PLAIN_NAME.test(name) ? name : '…'))
    .join('/')

/** The fault of a body that is absent, which the framework gives as null, if all its members may be left out. */
const NO_BODY: Complaint = {
  pointer: '',
  code: 'wrong_type',
  detail: 'must be an object: without a member, send {}',
}

/** Returns a complaint for each parameter that a query has more than once: no route takes a list. */
const repeatedIn = (query: unknown): Complaint[] =>
  Object.entries(query ?? {})
    .filter(([, value]) => Array.isArray(value))
    .slice(0, limits.findingsShown)
    .map(([name]) => ({ pointer: `/${name}`, ...REPEATED }))

/** Converts plain text in a query to an integer or a boolean if the schema wants one: a query has only strings. */
function withPlainValues(schema: TSchema, query: unknown): unknown {
  const properties: unknown = Reflect.get(schema, 'properties')
  if (typeof query !== 'object' || query === null || typeof properties !== 'object' || properties === null)
    return query
  const entries = Object.entries(query).map(([name, value]: [string, unknown]) => {
    const property: unknown = Object.hasOwn(properties, name) ? Reflect.get(properties, name) : undefined
    const type: unknown =
      typeof property === 'object' && property !== null ? Reflect.get(property, 'type') : undefined
    return [name, typeof value === 'string' ? plainValue(type, value) : value]
  })
  return Object.fromEntries(entries)
}

function plainValue(type: unknown, text: string): unknown {
  if (type === 'integer' && /^(?:[0-9]{1,16}|-[1-9][0-9]{0,15})$/.test(text)) return Number(text)
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}
