import assert from 'node:assert/strict'
import { Validator } from '@seriousme/openapi-schema-validator'
import { before, test } from 'node:test'
import { createControllerApp } from '../../src/api/controller/app.ts'
import { plainTransport } from '../../src/api/controller/transports.ts'
import { namedSchemas } from '../../src/api/wire/named.ts'
import { patternWords } from '../../src/api/wire/words.ts'
import { faults, rejections } from '../../src/core/errors.ts'
import { readAsset } from '../../src/daemon/assets.ts'
import { checkerFor } from '../../src/lib/schema-check.ts'
import { silentLog } from '../../src/log/log.ts'
import type { App } from '../../src/api/controller/app.ts'
import type { Json } from './support/controller-host.ts'

let app: App
let document: Json
before(async () => {
  const rooms = {
    context: () => undefined,
    waitingFor: () => [],
    readAsset,
    version: '1.2.3',
    log: silentLog,
  }
  app = await createControllerApp(rooms, plainTransport)
  document = (await app.inject('/docs/swagger.json')).json()
})

/** Every operation of the document with where it is. */
const operations = (): { name: string; operation: Json }[] =>
  Object.entries<object>(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  )

test('the OpenAPI document is valid OpenAPI 3.1', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  assert.ok(valid, JSON.stringify(errors))
  assert.match(document.openapi, /^3\.1\./)
  assert.equal(document.info.version, '1.2.3')
})

test('the document has exactly the routes there are', () => {
  assert.deepEqual(
    operations()
      .map(({ name }) => name)
      .toSorted(),
    [
      'delete /v1/vms/{id}',
      'get /docs',
      'get /docs/errors',
      'get /docs/swagger.json',
      'get /healthz',
      'get /readyz',
      'get /v1/vms',
      'get /v1/vms/{id}',
      'put /v1/vms/{id}',
      'put /v1/vms/{id}/power',
    ],
  )
})

test('every operation has an id, a summary and described answers; its errors are problems', () => {
  for (const { name, operation } of operations()) {
    assert.ok(operation.operationId && operation.summary, name)
    for (const [status, response] of Object.entries<Json>(operation.responses)) {
      assert.notEqual(response.description, 'Default Response', `${name} ${status}`)
      if (Number(status) < 400) continue
      assert.deepEqual(response.content, {
        'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } },
      })
    }
    assert.ok(operation.responses['403'], name)
  }
})

test('the schemas have their names, and every reference leads to one', () => {
  assert.deepEqual(Object.keys(document.components.schemas).toSorted(), Object.keys(namedSchemas).toSorted())
  const references = JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)
  for (const [, reference = ''] of references) {
    assert.ok(document.components.schemas[reference.replace('#/components/schemas/', '')], reference)
  }
})

test('no request schema lets an undescribed member through', () => {
  const walk = (node: Json, path: string): void => {
    if (typeof node !== 'object' || node === null) return
    if (node.type === 'object') assert.equal(node.additionalProperties, false, path)
    for (const [key, member] of Object.entries(node)) if (key !== 'examples') walk(member, `${path}/${key}`)
  }
  for (const name of ['CreateVm', 'SetPower'] as const) walk(namedSchemas[name], name)
})

test('the examples are what they show', () => {
  for (const [name, schema] of Object.entries(namedSchemas)) {
    const { examples } = schema as { examples?: readonly unknown[] }
    for (const example of examples ?? [])
      assert.deepEqual(checkerFor(schema, patternWords)(example), [], name)
  }
  const named = ['Vm', 'CreateVm', 'SetPower', 'Problem']
  for (const name of named) assert.ok(document.components.schemas[name].examples?.length > 0, name)
})

test('the reference page runs scripts of this listener only', async () => {
  const first = await app.inject('/docs')
  assert.equal(first.statusCode, 200)
  assert.match(String(first.headers['content-type']), /^text\/html/)
  const policy = String(first.headers['content-security-policy'])
  const directives = new Map(
    policy.split('; ').map((part) => [part.split(' ', 1)[0], part.split(' ').slice(1).join(' ')]),
  )
  assert.equal(directives.get('default-src'), "'none'")
  assert.equal(directives.get('script-src'), "'self'")
  assert.equal(directives.get('connect-src'), "'self'")
  assert.equal(directives.get('frame-ancestors'), "'none'")
  assert.doesNotMatch(policy, /https?:|unsafe-eval/)
  const sources = [...first.body.matchAll(/<script src="([^"]+)">/g)].map(([, source]) => source ?? '')
  assert.deepEqual(sources, ['/docs/scalar.js', '/docs/start.js'])
  assert.doesNotMatch(first.body, /<script>|https?:/)
  for (const source of sources) {
    const script = await app.inject(source)
    assert.equal(script.statusCode, 200)
    assert.match(String(script.headers['content-type']), /^text\/javascript/)
  }
})

test('the errors page has an anchor for every code, where the type of a problem leads', async () => {
  const page = await app.inject('/docs/errors')
  assert.equal(page.statusCode, 200)
  for (const code of [...Object.keys(rejections), ...Object.keys(faults)]) {
    assert.ok(page.body.includes(`id="${code}"`), code)
  }
  assert.match(String(page.headers['content-security-policy']), /^default-src 'none'/)
})
