import assert from 'node:assert/strict'
import { Validator } from '@seriousme/openapi-schema-validator'
import { before, test } from 'node:test'
import { coordinationSchemas } from '../../src/api/wire/named.ts'
import { patternWords } from '../../src/api/wire/values.ts'
import { exampleOf } from '../../src/api/wire/problem.ts'
import { checkerFor } from '../../src/lib/schema-check.ts'
import { packageVersion } from '../../tools/bundle.ts'
import { describedCoordinationApp } from '../../tools/openapi-document.ts'
import { makePki } from './support/controller-host.ts'
import { startCoordinationHost } from './support/coordination-host.ts'
import type { ProblemCode } from '../../src/core/errors.ts'
import type { Json } from './support/controller-host.ts'

let document: Json
before(async () => {
  const app = await describedCoordinationApp()
  document = JSON.parse(JSON.stringify(app.swagger()))
})

test('the document is valid OpenAPI 3.1, and a host serves it as it is built', async (t) => {
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  assert.ok(valid, JSON.stringify(errors))
  assert.match(document.openapi, /^3\.1\./)
  assert.equal(document.info.version, packageVersion())
  const host = await startCoordinationHost(t, await makePki())
  const { json } = await host.call({ path: '/docs/coordination.json' })
  assert.deepEqual({ ...json, info: { ...json.info, version: packageVersion() } }, document)
})

test('the document has exactly the routes of the API; each can be refused, with an example of each problem', () => {
  const operations = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  )
  assert.deepEqual(operations.map(({ name }) => name).toSorted(), [
    'get /docs/coordination.json',
    'get /docs/errors',
    'get /healthz',
    'get /readyz',
    'get /v1/migrations/{id}',
    'get /v1/migrations/{id}/console',
    'get /v1/migrations/{id}/held-packets',
    'get /v1/migrations/{id}/images/{sha256}',
    'get /v1/migrations/{id}/memory',
    'get /v1/migrations/{id}/rounds/{number}',
    'post /v1/migrations/{id}/abort',
    'post /v1/migrations/{id}/handover',
    'post /v1/migrations/{id}/release',
    'post /v1/migrations/{id}/rounds',
  ])
  const tags = document.tags.map(({ name }: Json) => name)
  for (const { name, operation } of operations) {
    assert.ok(operation.operationId && operation.summary, name)
    assert.ok(tags.includes(operation.tags[0]), name)
    assert.ok(operation.responses['403'], name)
  }
  for (const [code, { value }] of Object.entries<Json>(document.components.examples))
    assert.deepEqual(value, exampleOf(code as ProblemCode))
})

test('the schemas have their names, and their examples match them', () => {
  assert.deepEqual(Object.keys(document.components.schemas).toSorted(), [
    'Arrival',
    'HandOver',
    'HeldPackets',
    'Manifest',
    'MoveStage',
    'MovedConsole',
    'Problem',
    'Release',
    'Round',
    'TakeRound',
  ])
  for (const [name, schema] of Object.entries<Json>(coordinationSchemas)) {
    assert.ok(schema.examples.length > 0, name)
    for (const example of schema.examples)
      assert.deepEqual(checkerFor(schema, patternWords)(example), [], name)
  }
  assert.doesNotMatch(JSON.stringify(document), /"\$ref":"(?!#\/components\/)/)
})
