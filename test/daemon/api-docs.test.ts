import assert from 'node:assert/strict'
import { Validator } from '@seriousme/openapi-schema-validator'
import { before, test } from 'node:test'
import { namedSchemas } from '../../src/api/wire/named.ts'
import { invalidRequest } from '../../src/api/listener/validation.ts'
import {
  exampleOf,
  mayRetry,
  problemHead,
  problemOf,
  problemOfFault,
  problemSchema,
} from '../../src/api/wire/problem.ts'
import { patternWords } from '../../src/api/wire/values.ts'
import { HostFault } from '../../src/core/errors.ts'
import { faults, rejections } from '../../src/core/problems/catalogue.ts'
import { checkerFor } from '../../src/lib/schema-check.ts'
import { packageVersion } from '../../tools/bundle.ts'
import { coordinationDocument, describedApp, metricsDocument } from '../../tools/openapi-document.ts'
import { undocumented } from './support/documented.ts'
import type { App } from '../../src/api/listener/app.ts'
import type { Complaint } from '../../src/lib/schema-check.ts'
import type { FaultCode, ProblemCode } from '../../src/core/errors.ts'
import type { Json } from './support/controller-host.ts'

let app: App
let document: Json
before(async () => {
  app = await describedApp()
  document = (await app.inject('/docs/swagger.json')).json()
})

/** Lists every operation of the document with its place. */
const operations = (of: Json = document): { name: string; operation: Json }[] =>
  Object.entries<object>(of.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  )

test('the OpenAPI document is valid OpenAPI 3.1', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  assert.ok(valid, JSON.stringify(errors))
  assert.match(document.openapi, /^3\.1\./)
  assert.equal(document.info.version, packageVersion())
})

/**
 * Syntax that ECMA-262, RE2 and Python read alike: no look-around, no Unicode classes, and none of `\\d`, `\\w`, `\\s`,
 * `\\b`.
 */
const PORTABLE = /^(?:\\x[0-9a-f]{2}|\\[.*+?()[\]{}|^$/\\-]|\((?!\?)|[^\\(])*$/
const REPETITIONS_MAX = 1000

test('every pattern of the document means the same in any language', () => {
  const patterns = new Set<string>()
  JSON.stringify(document, (name, value: unknown) => {
    if (name === 'pattern' && typeof value === 'string') patterns.add(value)
    return value
  })
  assert.ok(patterns.size > 10)
  for (const pattern of patterns) {
    assert.match(pattern, PORTABLE)
    assert.ok(pattern.startsWith('^') && pattern.endsWith('$'), pattern)
    assert.doesNotThrow(() => new RegExp(pattern, 'u'), pattern)
    for (const [, most = ''] of pattern.matchAll(/\{\d*,?(\d*)\}/g))
      assert.ok(Number(most) <= REPETITIONS_MAX, pattern)
  }
})

test('the document has exactly the routes of the daemon', () => {
  assert.deepEqual(
    operations()
      .map(({ name }) => name)
      .toSorted(),
    [
      'delete /v1/images/{sha256}',
      'delete /v1/snapshots/{id}',
      'delete /v1/vms/{id}',
      'delete /v1/vms/{id}/migration',
      'get /docs',
      'get /docs/errors',
      'get /docs/swagger.json',
      'get /healthz',
      'get /metrics',
      'get /readyz',
      'get /ui',
      'get /ui/console/{id}',
      'get /v1/events',
      'get /v1/images',
      'get /v1/maintenance',
      'get /v1/snapshots',
      'get /v1/snapshots/{id}',
      'get /v1/sync',
      'get /v1/vm-states',
      'get /v1/vms',
      'get /v1/vms/{id}',
      'get /v1/vms/{id}/console',
      'get /v1/vms/{id}/console/log',
      'get /v1/vms/{id}/counters',
      'get /v1/vms/{id}/events',
      'get /v1/vms/{id}/plan',
      'post /v1/snapshots/{id}/complete',
      'post /v1/vms/{id}/reboot',
      'post /v1/vms/{id}/rebuild',
      'put /v1/maintenance',
      'put /v1/snapshots/{id}',
      'put /v1/snapshots/{id}/upload',
      'put /v1/vms/{id}',
      'put /v1/vms/{id}/arrival',
      'put /v1/vms/{id}/boot',
      'put /v1/vms/{id}/compute',
      'put /v1/vms/{id}/disk',
      'put /v1/vms/{id}/exit',
      'put /v1/vms/{id}/keep-awake',
      'put /v1/vms/{id}/metadata',
      'put /v1/vms/{id}/migration',
      'put /v1/vms/{id}/network',
      'put /v1/vms/{id}/power',
      'put /v1/vms/{id}/readiness',
      'put /v1/vms/{id}/resize',
      'put /v1/vms/{id}/seed',
    ],
  )
})

test('every operation has an id, a summary and described answers; its errors are problems', () => {
  const tags = document.tags.map((tag: Json) => tag.name)
  for (const { name, operation } of operations()) {
    assert.ok(operation.operationId && operation.summary, name)
    assert.ok(tags.includes(operation.tags[0]) && operation.tags.length === 1, name)
    for (const [status, response] of Object.entries<Json>(operation.responses)) {
      assert.notEqual(response.description, 'Default Response', `${name} ${status}`)
      if (Number(status) < 400) continue
      // To a browser, a page refuses as a page.
      const pages = name.startsWith('get /ui') ? ['text/html'] : []
      assert.deepEqual(Object.keys(response.content), ['application/problem+json', ...pages])
      const { schema, examples } = response.content['application/problem+json']
      assert.deepEqual(schema, { $ref: '#/components/schemas/Problem' })
      const described = [...response.description.matchAll(/^`(\w+)`: /gm)].map(([, code]) => code)
      assert.deepEqual(Object.keys(examples), described, `${name} ${status}`)
      for (const code of described) assert.equal(problemHead(code).status, Number(status), code)
    }
    assert.ok(operation.responses['403'], name)
  }
})

test('every error code that a route can answer leads to an example of that very answer', async () => {
  const used = new Set<string>()
  for (const { name, operation } of operations()) {
    for (const response of Object.values<Json>(operation.responses)) {
      const { examples = {} } = response.content?.['application/problem+json'] ?? {}
      for (const [code, example] of Object.entries<Json>(examples)) {
        assert.deepEqual(example, { $ref: `#/components/examples/${code}` }, name)
        used.add(code)
      }
    }
  }
  const { examples } = document.components
  assert.deepEqual(Object.keys(examples), [...used].toSorted())
  // `method_not_allowed` is answered before a route is chosen.
  const forNodes: Json = await coordinationDocument()
  const listed = new Set([...used, ...Object.keys(forNodes.components.examples), 'method_not_allowed'])
  const unused = Object.keys(rejections).filter((code) => !listed.has(code))
  const remedy = 'add each to problems(…) of the routes that answer it'
  assert.deepEqual(unused, [], `no route lists these codes: ${remedy}`)
  for (const [code, example] of Object.entries<Json>(examples)) {
    assert.equal(example.summary, example.value.title)
    assert.deepEqual(example.value, exampleOf(code as ProblemCode))
  }
})

test('the example of every code is an answer that this daemon could give', () => {
  const check = checkerFor(problemSchema, patternWords)
  for (const code of [...Object.keys(rejections), ...Object.keys(faults)] as ProblemCode[]) {
    const example = exampleOf(code)
    assert.deepEqual(check(example), [], code)
    assert.equal(example.code, code)
    assert.equal(example.status, problemHead(code).status)
    // Neither a secret nor a path was taken out.
    assert.equal(example.detail, { ...rejections, ...faults }[code].example)
  }
  for (const code of Object.keys(faults) as FaultCode[]) {
    const example = exampleOf(code)
    assert.deepEqual(example, problemOfFault(new HostFault(code, example.detail), example.request_id))
  }
  const example = exampleOf('invalid_request')
  const { rejection } = invalidRequest('body', (example.errors ?? []) as readonly Complaint[])
  assert.deepEqual(example, problemOf(rejection, example.request_id))
})

test('an answer may have Retry-After if, and only if, trying again may help, and each 202 says where to watch', () => {
  for (const { name, operation } of operations())
    for (const [status, { content, headers = {} }] of Object.entries<Json>(operation.responses)) {
      const codes = Object.keys(content?.['application/problem+json']?.examples ?? {}) as ProblemCode[]
      assert.equal('Retry-After' in headers, codes.some(mayRetry), `${name} ${status}`)
      assert.equal('Location' in headers, status === '202', `${name} ${status}`)
    }
})

test('every answer of every listener has X-Request-Id, and the reads name the other headers that they have', async () => {
  const documents: readonly Json[] = [document, await coordinationDocument(), await metricsDocument()]
  const without = documents.flatMap((one) =>
    operations(one).flatMap(({ name, operation }) =>
      Object.entries<Json>(operation.responses)
        .filter(([, { headers = {} }]) => !('X-Request-Id' in headers))
        .map(([status]) => `${name} ${status}`),
    ),
  )
  assert.deepEqual(without, [])
  const withHeader = (header: string) =>
    operations().flatMap(({ name, operation }) =>
      Object.entries<Json>(operation.responses)
        .filter(([, { headers = {} }]) => header in headers)
        .map(([status]) => `${name} ${status}`),
    )
  const polls = ['/v1/vms/{id}', '/v1/snapshots/{id}'].flatMap((at) => [`get ${at} 200`, `get ${at} 304`])
  const tagged = withHeader('ETag').filter((name) => name.startsWith('get '))
  assert.deepEqual(tagged.toSorted(), [...polls, 'get /v1/maintenance 200'].toSorted())
  assert.deepEqual(withHeader('Preference-Applied').toSorted(), [...polls, 'get /v1/vms 200'].toSorted())
  for (const header of ['Upgrade', 'Sec-WebSocket-Version'])
    assert.deepEqual(withHeader(header), ['get /v1/vms/{id}/console 426'])
})

test('an answer that the document does not have is found by every daemon test', () => {
  const seen = {
    method: 'GET',
    path: '/v1/vms/web-1?x=1',
    mediaType: 'application/problem+json; charset=utf-8',
  }
  assert.equal(undocumented(document, { ...seen, status: 404, code: 'not_found' }), undefined)
  assert.match(undocumented(document, { ...seen, status: 404, code: 'disk_shrink' }) ?? '', /disk_shrink/)
  assert.match(undocumented(document, { ...seen, status: 418, code: 'not_found' }) ?? '', /418/)
  assert.match(undocumented(document, { ...seen, status: 200 }) ?? '', /problem\+json/)
  const problem = { type: '/x', title: 'x', status: 404, detail: 'x', code: 'not_found', retryable: false }
  const answer = { ...seen, status: 404, code: 'not_found', body: { ...problem, request_id: 'r' } }
  assert.equal(undocumented(document, answer), undefined)
  assert.match(undocumented(document, { ...answer, body: problem }) ?? '', /request_id/)
  const stray = { ...answer.body, stray: 1 }
  assert.match(undocumented(document, { ...answer, body: stray }) ?? '', /stray/)
  assert.equal(undocumented(document, { ...seen, path: '/nowhere', status: 404 }), undefined)
})

test('the schemas have their names, and every reference leads to a schema', () => {
  assert.deepEqual(Object.keys(document.components.schemas).toSorted(), Object.keys(namedSchemas).toSorted())
  const references = JSON.stringify(document).matchAll(/"\$ref":"#\/components\/(\w+)\/([^"]+)"/g)
  for (const [reference, kind = '', name = ''] of references) {
    assert.ok(document.components[kind][name], reference)
  }
  assert.doesNotMatch(JSON.stringify(document), /"\$ref":"(?!#\/components\/)/)
})

test('no request schema accepts an undescribed member', () => {
  const walk = (node: Json, path: string): void => {
    if (typeof node !== 'object' || node === null) return
    // A map has free names, within bounds.
    const isMap = node.propertyNames?.pattern !== undefined && node.maxProperties !== undefined
    if (node.type === 'object' && !isMap) assert.equal(node.additionalProperties, false, path)
    for (const [key, member] of Object.entries(node)) if (key !== 'examples') walk(member, `${path}/${key}`)
  }
  const bodies = operations().flatMap(({ operation }) => {
    const reference: string | undefined = operation.requestBody?.content['application/json'].schema.$ref
    return reference === undefined ? [] : [reference.replace('#/components/schemas/', '')]
  })
  assert.ok(bodies.includes('CreateVm') && bodies.includes('SetPower'))
  for (const name of bodies) walk(namedSchemas[name as keyof typeof namedSchemas], name)
})

test('what clients read may have further members: no schema of an answer or of a frame of the daemon is closed', () => {
  const walk = (node: Json, path: string): void => {
    if (typeof node !== 'object' || node === null) return
    assert.notEqual(node.additionalProperties, false, path)
    for (const [key, member] of Object.entries(node)) if (key !== 'examples') walk(member, `${path}/${key}`)
  }
  for (const { name, operation } of operations()) walk(operation.responses, name)
  const sent = operations().map(({ operation }) => JSON.stringify(operation.requestBody ?? {}))
  for (const [name, schema] of Object.entries<Json>(document.components.schemas)) {
    const isSent = name === 'ConsoleFromViewer' || sent.some((body) => body.includes(`/schemas/${name}"`))
    if (!isSent) walk(schema, name)
  }
  assert.match(document.info.description, /answers? may have further members/)
  assert.match(document.info.description, /values? of a string/)
})

test('a change that raises no generation does not ask its client to poll the generations', () => {
  const accepted = operations().flatMap(({ name, operation }) => {
    const answer: Json = operation.responses[202]
    return answer?.content?.['application/json'].schema.$ref?.endsWith('/Vm') === true
      ? [[name, answer.description] as const]
      : []
  })
  const without = accepted.filter(([, description]) => !/poll until the generations/.test(description))
  assert.deepEqual(without.map(([name]) => name).toSorted(), [
    'put /v1/vms/{id}/keep-awake',
    'put /v1/vms/{id}/metadata',
  ])
  for (const [, description] of without) assert.match(description, /the generations stay/)
})

test('a member of a request that the answer names otherwise, or does not have, is in the description', () => {
  const { schemas } = document.components
  const memberNames = (node: Json): string[] => [
    ...Object.keys(node?.properties ?? {}),
    ...Object.values<Json>(node?.properties ?? {}).flatMap(memberNames),
  ]
  const answered = new Set([...memberNames(schemas.Vm), ...memberNames(schemas.Vm.properties.desired)])
  // The VM does not keep these: seconds for its guest, and where it comes from.
  const passing = ['grace_seconds', 'source_url']
  const routes = operations().filter(({ name }) => /^(?:put|post) \/v1\/vms\//.test(name))
  const missing = routes.flatMap(({ operation }) => {
    const reference: string = operation.requestBody?.content['application/json'].schema.$ref ?? ''
    const members = Object.keys(schemas[reference.split('/').at(-1) ?? '']?.properties ?? {})
    return members.filter((name) => !answered.has(name) && !passing.includes(name))
  })
  assert.deepEqual([...new Set(missing)].toSorted(), ['check', 'ssh_authorized_keys', 'until', 'user_data'])
  for (const name of missing) assert.ok(document.info.description.includes(`\`${name}\``), name)
})

test('the examples match their schemas', () => {
  for (const [name, schema] of Object.entries(namedSchemas)) {
    const { examples } = schema as { examples?: readonly unknown[] }
    for (const example of examples ?? [])
      assert.deepEqual(checkerFor(schema, patternWords)(example), [], name)
  }
  for (const [name, schema] of Object.entries<Json>(document.components.schemas)) {
    if (!name.endsWith('List')) assert.ok(schema.examples?.length > 0, name)
  }
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

test('the errors page has an anchor for every code, which the type of a problem links to', async () => {
  const page = await app.inject('/docs/errors')
  assert.equal(page.statusCode, 200)
  for (const code of [...Object.keys(rejections), ...Object.keys(faults)]) {
    assert.ok(page.body.includes(`id="${code}"`), code)
  }
  assert.match(String(page.headers['content-security-policy']), /^default-src 'none'/)
})
