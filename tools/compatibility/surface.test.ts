import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KEYWORDS } from './flat-schema.ts'
import { compareSurfaces, publishedSurface, surfaceOfToday } from './surface.ts'
import type { Schema } from './flat-schema.ts'
import type { Surface } from './surface.ts'

const today = await surfaceOfToday()

/** JSON of any shape: a test changes what it knows. */
type Json = ReturnType<typeof JSON.parse>

/** Returns what breaks if a change is made to the surface of today after its publication. */
function after(change: (surface: Json) => void): string[] {
  const changed = structuredClone(today) as Json
  change(changed)
  return compareSurfaces({ published: today, today: changed as Surface })
}

/** Returns what breaks if the surface of today came after one that differs so. */
function before(change: (surface: Json) => void): string[] {
  const changed = structuredClone(today) as Json
  change(changed)
  return compareSurfaces({ published: changed as Surface, today })
}

const schemaOf = (surface: Json, name: string): Json => surface.api.components.schemas[name]

test('nothing that was published is missing or changed', () => {
  assert.deepEqual(compareSurfaces({ published: publishedSurface() ?? today, today }), [])
})

test('an unchanged surface keeps the promise', () => {
  assert.deepEqual(
    after(() => {}),
    [],
  )
})

test('what is new or wider keeps the promise', () => {
  const additions = before(({ api, config, names }) => {
    delete api.paths['/v1/vms/{id}/boot']
    delete api.components.schemas.SetBoot
    delete api.components.schemas.Vm.properties.labels
    api.components.schemas.Vm.required = ['id']
    delete api.components.schemas.CreateVm.properties.labels
    api.components.schemas.SetCompute.properties.wake.type = 'string'
    api.components.schemas.SetPower.properties.state.enum.pop()
    api.components.schemas.CreateVm.properties.compute.properties.memory_mib.minimum *= 2
    delete api.components.schemas.Vm.properties.created_at.format
    api.components.schemas.SetMetadata.properties.labels.additionalProperties = false
    api.components.schemas.ConsoleFromViewer.properties.resize.properties.cols.maximum = 80
    delete api.components.schemas.ConsoleFromViewer.properties.position
    delete api.components.schemas.ConsoleFromDaemon.properties.waiting
    delete api.components.schemas.Problem.properties.errors
    delete api.paths['/v1/vms/{id}'].put.responses['202'].headers.Location
    delete config.properties.log
    for (const list of Object.values(names) as string[][]) list.pop()
  })
  assert.deepEqual(additions, [])
})

const broken: readonly (readonly [what: string, change: (surface: Json) => void, finding: RegExp])[] = [
  ['a route', ({ api }) => delete api.paths['/v1/vms/{id}/boot'], /^PUT \/v1\/vms\/\{id\}\/boot is gone$/],
  [
    'the name of an operation',
    ({ api }) => (api.paths['/v1/sync'].get.operationId = 'sync'),
    /^GET \/v1\/sync has another operationId$/,
  ],
  [
    'a role',
    ({ api }) => (api.paths['/v1/vms'].get['x-roles'] = ['controller']),
    /^GET \/v1\/vms refuses the role reader$/,
  ],
  [
    'a parameter',
    ({ api }) => api.paths['/v1/vms'].get.parameters.shift(),
    /^GET \/v1\/vms, parameter limit, is gone$/,
  ],
  [
    'a parameter that must be sent',
    ({ api }) =>
      api.paths['/v1/vms'].get.parameters.push({ name: 'x', in: 'query', required: true, schema: {} }),
    /^GET \/v1\/vms needs the parameter x$/,
  ],
  [
    'a status',
    ({ api }) => (api.paths['/v1/vms/{id}/power'].put.responses['204'] = {}),
    /^PUT \/v1\/vms\/\{id\}\/power may answer 204$/,
  ],
  [
    'a media type',
    ({ api }) => (api.paths['/metrics'].get.responses['200'].content = {}),
    /^GET \/metrics, answer 200 is no longer text\/plain$/,
  ],
  [
    'a member of an answer',
    (all) => delete schemaOf(all, 'Vm').properties.labels,
    /answer 200\.labels is gone$/,
  ],
  ['a member that may be absent', (all) => schemaOf(all, 'Vm').required.shift(), /answer 200 may lack id$/],
  [
    'a member that may be null',
    (all) => (schemaOf(all, 'Vm').properties.id.type = ['string', 'null']),
    /answer 200\.id may be null$/,
  ],
  [
    'a member of a request',
    (all) => delete schemaOf(all, 'CreateVm').properties.labels,
    /^PUT \/v1\/vms\/\{id\}, request\.labels is gone$/,
  ],
  [
    'a member that a request needs',
    (all) => schemaOf(all, 'CreateVm').required.push('network'),
    /^PUT \/v1\/vms\/\{id\}, request needs network$/,
  ],
  [
    'null in a request',
    (all) => (schemaOf(all, 'SetCompute').properties.wake.type = 'string'),
    /request\.wake is refused as null$/,
  ],
  [
    'null in a choice',
    (all) => schemaOf(all, 'SetBoot').properties.initrd.anyOf.pop(),
    /request\.initrd is refused as null$/,
  ],
  [
    'a value',
    (all) => schemaOf(all, 'SetPower').properties.state.enum.shift(),
    /request\.state refuses "\w+"$/,
  ],
  [
    'a bound',
    (all) => (schemaOf(all, 'Resize').properties.cpu_millicores.maximum = 1000),
    /has a tighter bound: maximum 1000$/,
  ],
  [
    'names of members',
    (all) => (schemaOf(all, 'SetMetadata').properties.labels.propertyNames.pattern = 'x'),
    /request\.labels, name of a member, has another pattern: x$/,
  ],
  [
    'members without a name in a request',
    (all) => (schemaOf(all, 'SetMetadata').properties.labels.additionalProperties = false),
    /request\.labels refuses members that it does not name$/,
  ],
  [
    'a format in a request',
    (all) => (schemaOf(all, 'SetNetwork').properties.ipv4_address.format = 'hostname'),
    /request\.ipv4_address has another format: hostname$/,
  ],
  [
    'a format in an answer',
    (all) => delete schemaOf(all, 'Vm').properties.created_at.format,
    /answer 200\.created_at no longer has the format date-time$/,
  ],
  [
    'a type in an answer',
    (all) => delete schemaOf(all, 'Vm').properties.id.type,
    /answer 200\.id may be of any type$/,
  ],
  [
    'a header of an answer',
    ({ api }) => delete api.paths['/v1/vms/{id}'].put.responses['202'].headers.Location,
    /^PUT \/v1\/vms\/\{id\}, answer 202 has no header Location$/,
  ],
  [
    'a member of a problem',
    (all) => delete schemaOf(all, 'Problem').properties.retryable,
    /^Problem\.retryable is gone$/,
  ],
  [
    'the first message of a stream',
    (all) => schemaOf(all, 'EventStart').required.pop(),
    /^EventStart may lack missed$/,
  ],
  [
    'a frame of the daemon',
    (all) => delete schemaOf(all, 'ConsoleFromDaemon').properties.attached,
    /^ConsoleFromDaemon\.attached is gone$/,
  ],
  [
    'a frame of a viewer',
    (all) => (schemaOf(all, 'ConsoleFromViewer').properties.resize.properties.cols.maximum = 80),
    /^ConsoleFromViewer\.resize\.cols has a tighter bound: maximum 80$/,
  ],
  [
    'what a frame of a viewer needs',
    (all) => schemaOf(all, 'ConsoleFromViewer').properties.resize.required.push('at'),
    /^ConsoleFromViewer\.resize needs at$/,
  ],
  [
    'a pattern',
    (all) => (schemaOf(all, 'SetNetwork').properties.mac_address.pattern = 'x'),
    /request\.mac_address has another pattern: x$/,
  ],
  ['a schema', ({ api }) => delete api.components.schemas.VmList, /^the schema VmList is gone$/],
  [
    'a key of the configuration',
    ({ config }) => delete config.properties.log,
    /^the configuration\.log is gone$/,
  ],
  [
    'a default of the configuration',
    ({ config }) => (config.properties.log.properties.level.default = 'debug'),
    /^the configuration\.log\.level has another default: "debug"$/,
  ],
  ['a name', ({ names }) => names.event.shift(), /^the event admission_refused is gone$/],
]

test('what is gone, renamed or narrower breaks the promise', () => {
  for (const [what, change, finding] of broken) {
    const findings = after(change)
    assert.ok(
      findings.some((found) => finding.test(found)),
      `${what}: ${findings.join('; ') || 'nothing found'}`,
    )
  }
})

test('each named schema is compared', () => {
  const unseen = Object.keys(today.api.components.schemas).filter((name) => {
    const findings = after(({ api }) => (api.components.schemas[name] = { type: 'boolean' }))
    return findings.length === 0
  })
  assert.deepEqual(unseen, [])
})

/** These say nothing of values. The content of a stream is compared as messages. */
const WITHOUT_MEANING = new Set(['contentMediaType', 'contentSchema'])

test('each keyword of a schema is compared', () => {
  const unknown = allSchemas(today).flatMap((schema) =>
    Object.keys(schema).filter((keyword) => !KEYWORDS.has(keyword) && !WITHOUT_MEANING.has(keyword)),
  )
  assert.deepEqual([...new Set(unknown)], [])
})

/** Returns the schemas of routes, named schemas and the configuration, each with all schemas in it. */
function allSchemas({ api, config }: Surface): Schema[] {
  const operations = Object.values(api.paths).flatMap((methods) => Object.values(methods))
  const contents = operations.flatMap(({ requestBody, responses }) =>
    [requestBody, ...Object.values(responses)].flatMap((body) => Object.values(body?.content ?? {})),
  )
  const parts = [...operations.flatMap(({ parameters = [] }) => parameters), ...contents]
  const roots = [...parts.map(({ schema = {} }) => schema), ...Object.values(api.components.schemas), config]
  return roots.flatMap(withParts)
}

function withParts(schema: Schema): Schema[] {
  const { properties = {}, items = {}, additionalProperties = {}, propertyNames = {}, anyOf = [] } = schema
  const parts = [...Object.values(properties), ...anyOf, items, propertyNames]
  const further = typeof additionalProperties === 'object' ? [additionalProperties] : []
  return [schema, ...[...parts, ...further].filter((part) => Object.keys(part).length > 0).flatMap(withParts)]
}
