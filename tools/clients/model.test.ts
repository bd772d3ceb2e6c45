import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openapiDocument } from '../openapi-document.ts'
import { modelOf } from './model.ts'
import { SMALL_DOCUMENT } from './small-document.ts'
import type { Document, Schema } from './document.ts'

/** Returns the small document with one more member in its request. */
function documentWith(member: Schema): Document {
  const { SetThing, ...schemas } = SMALL_DOCUMENT.components.schemas
  const changed = { ...SetThing, properties: { ...SetThing?.properties, more: member } }
  return { ...SMALL_DOCUMENT, components: { schemas: { ...schemas, SetThing: changed } } }
}

const typesOf = (document: Document) => modelOf(document).types

test('an object inside another gets a name from its place, one in a list from the singular', () => {
  const item: Schema = { type: 'object', properties: { size: { type: 'integer' } } }
  const names = typesOf(documentWith({ type: 'array', items: item })).map(({ name }) => name)
  assert.deepEqual(names, ['SetThing', 'SetThingMore', 'Thing'])
  const entries = documentWith({ type: 'object', properties: { entries: { type: 'array', items: item } } })
  assert.ok(typesOf(entries).some(({ name }) => name === 'SetThingMoreEntry'))
})

test('something or null is nullable, whether by its type or by a choice', () => {
  for (const member of [{ type: ['integer', 'null'] }, { anyOf: [{ type: 'integer' }, { type: 'null' }] }]) {
    const [type] = typesOf(documentWith(member))
    assert.deepEqual(type?.members.at(-1)?.shape, { kind: 'nullable', of: { kind: 'integer' } })
  }
})

test('a type that requests and answers share counts as one of answers, with all that is in it', () => {
  const { paths } = SMALL_DOCUMENT
  const inner: Schema = { type: 'object', properties: { at: { type: 'string' } } }
  const answers = {
    operationId: 'getSetting',
    summary: 'Get a setting',
    responses: {
      200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/SetThing' } } } },
    },
  }
  const types = typesOf({ ...documentWith(inner), paths: { ...paths, '/v1/setting': { get: answers } } })
  assert.deepEqual(
    types.map(({ name, isRequest }) => [name, isRequest]),
    [
      ['SetThing', false],
      ['SetThingMore', false],
      ['Thing', false],
    ],
  )
  assert.equal(typesOf(documentWith(inner))[1]?.isRequest, true)
})

test('what no client knows is refused with its place', () => {
  const unknown: [Schema, RegExp][] = [
    [{ oneOf: [] }, /SetThingMore: the clients do not know oneOf/],
    [{ anyOf: [{ type: 'string' }, { type: 'integer' }] }, /a choice of 2 schemas/],
    [{ type: ['string', 'integer'] }, /a value of types string,integer/],
    [{ $ref: '#/components/schemas/Missing' }, /nothing is at/],
  ]
  for (const [member, message] of unknown) assert.throws(() => modelOf(documentWith(member)), message)
})

test('streams, pages and documents are left out, and every other operation is in the clients', async () => {
  const document = (await openapiDocument()) as Document
  const all = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId }) => operationId),
  )
  const used = new Set(modelOf(document).operations.map(({ id }) => id))
  assert.deepEqual(all.filter((id) => !used.has(id)).toSorted(), [
    'getConsolePage',
    'getDocs',
    'getErrorCodes',
    'getHostPage',
    'getOpenApi',
    'openConsole',
    'streamEvents',
  ])
})
