import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareSurfaces, publishedSurface, surfaceOfToday } from './surface.ts'
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
  ['an error code', ({ names }) => names['error code'].shift(), /^the error code \w+ is gone$/],
  ['an event', ({ names }) => names.event.shift(), /^the event admission_refused is gone$/],
  ['a metric', ({ names }) => names.metric.shift(), /^the metric vmhostd_build_info \(gauge\) is gone$/],
  ['a command', ({ names }) => names.command.pop(), /^the command vmhostctl .* is gone$/],
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
