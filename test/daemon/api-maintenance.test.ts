import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import {
  assertProblem,
  createBody,
  makePki,
  offerBody,
  startControllerHost,
} from './support/controller-host.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import type { NodeName } from '../../src/core/migration/offer.ts'
import type { Answer, ControllerHost, Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const WEB = 'web-1' as VmId
const CORDON = { state: 'cordoned', reason: 'new kernel' }
const STOPPED = { power: 'stopped', network: { ipv4_address: '192.0.2.10' } }

type Stage = ControllerHost & { readonly put: (path: string, body: unknown) => Promise<Answer> }

async function stage(t: TestContext): Promise<Stage> {
  const host = await startControllerHost(t, pki)
  const put = (path: string, body: unknown): Promise<Answer> => host.call({ method: 'PUT', path, body })
  return Object.assign(host, { put })
}

/** Records that nothing of the guest is left. */
function stopped({ store }: ControllerHost): void {
  const stopCarriedOut = store.vms.get(WEB)?.stops.accepted ?? assert.fail('there is no VM')
  store.vms.recordProgress(WEB, { observed: { state: 'stopped', sinceMs: 1 }, stopCarriedOut, nowMs: 1 })
}

test('a host is schedulable until it is cordoned, and shows since when and why', async (t) => {
  const host = await stage(t)
  const get = async (): Promise<Json> => (await host.call({ path: '/v1/maintenance' })).json
  const NONE = { left: [] as readonly never[] }
  assert.deepEqual(await get(), { state: 'schedulable', observed_state: 'schedulable', ...NONE })
  const { status, json } = await host.put('/v1/maintenance', CORDON)
  assert.equal(status, 202)
  const cordoned = {
    ...CORDON,
    observed_state: 'cordoned',
    since: new Date(host.host.clock.now()).toISOString(),
  }
  const { operation_id, ...set } = json
  assert.match(operation_id, /^op-/)
  assert.deepEqual(set, { ...cordoned, ...NONE })
  assert.deepEqual(await get(), set)
  assert.deepEqual((await host.call({ path: '/v1/sync' })).json.host.maintenance, cordoned)
  const again = await host.put('/v1/maintenance', CORDON)
  assert.deepEqual([again.status, again.json], [200, set])
  host.clock.set(60_000)
  const other = await host.put('/v1/maintenance', { state: 'cordoned' })
  const { operation_id: otherId, ...otherSet } = other.json
  assert.notEqual(otherId, operation_id)
  assert.deepEqual(
    [other.status, otherSet],
    [202, { ...NONE, state: 'cordoned', observed_state: 'cordoned', since: json.since }],
  )
})

test('each change of the state is an event and a line of the audit trail', async (t) => {
  const host = await stage(t)
  const ids: unknown[] = []
  for (const body of [CORDON, CORDON, { state: 'schedulable' }])
    ids.push((await host.put('/v1/maintenance', body)).json.operation_id)
  const [cordon, , schedulable] = ids
  const events = host.store.events.list({ after: 0, limit: 9, kind: 'host_maintenance' })
  assert.deepEqual(
    events.map(({ body }) => body),
    [
      {
        ...{ kind: 'host_maintenance', from: 'schedulable', to: 'cordoned' },
        ...{ detail: 'new kernel', operationId: cordon },
      },
      { kind: 'host_maintenance', from: 'cordoned', to: 'schedulable', operationId: schedulable },
    ],
  )
  const trail = host.logLines
    .map((line): Json => JSON.parse(line))
    .filter(({ message }) => message === 'request audited')
  assert.deepEqual(
    trail.map(({ action, outcome, operation_id }) => [action, outcome, operation_id]),
    [
      ['setMaintenance', 'accepted', cordon],
      ['setMaintenance', 'unchanged', undefined],
      ['setMaintenance', 'accepted', schedulable],
    ],
  )
})

test('the audit trail says what was asked of the host, and its state before, also if it was refused', async (t) => {
  const host = await stage(t)
  const drain = { guests: 'stop', grace_seconds: 30 }
  const bodies = [
    CORDON,
    CORDON,
    { state: 'drained' },
    { state: 'drained', drain },
    { state: 'cordoned', drain },
  ]
  for (const body of bodies) await host.put('/v1/maintenance', body)
  host.storeIsOpen = false
  await host.put('/v1/maintenance', { state: 'schedulable' })
  const trail = host.logLines
    .map((line): Json => JSON.parse(line))
    .filter(({ message }) => message === 'request audited')
  assert.deepEqual(
    trail.map(({ outcome, status, state_before, state, guests, grace_seconds }) => [
      ...[outcome, status, state_before, state, guests, grace_seconds],
    ]),
    [
      ['accepted', 202, 'schedulable', 'cordoned', undefined, undefined],
      ['unchanged', 200, 'cordoned', 'cordoned', undefined, undefined],
      ['accepted', 202, 'cordoned', 'drained', 'sleep', undefined],
      ['accepted', 202, 'drained', 'drained', 'stop', 30],
      ['refused', 400, 'drained', 'cordoned', 'stop', 30],
      ['failed', 503, undefined, 'schedulable', undefined, undefined],
    ],
  )
  assert.ok(!host.logLines.join('').includes('new kernel'))
})

test('a cordoned host takes no VM, and answers for those that it has', async (t) => {
  const host = await stage(t)
  assert.equal((await host.put('/v1/vms/web-1', createBody())).status, 202)
  await host.put('/v1/maintenance', CORDON)
  const other = createBody({ network: { ipv4_address: '192.0.2.11' } })
  assertProblem(await host.put('/v1/vms/web-2', other), 409, 'host_cordoned')
  assertProblem(await host.put('/v1/vms/web-2?dry_run=true', other), 409, 'host_cordoned')
  assert.equal((await host.put('/v1/vms/web-1', createBody())).status, 200)
  const [refused] = host.store.events.list({ after: 0, limit: 9, kind: 'admission_refused' })
  assert.equal(refused?.body.kind === 'admission_refused' && refused.body.code, 'host_cordoned')
  await host.put('/v1/maintenance', { state: 'schedulable' })
  assert.equal((await host.put('/v1/vms/web-2', other)).status, 202)
})

test('a cordoned host takes no VM of another host, and does not ask that host', async (t) => {
  const [source, host] = [await stage(t), await stage(t)]
  const { sourceHosts } = host.host
  sourceHosts.node = 'node-2' as NodeName
  await source.put('/v1/vms/web-1', createBody())
  await source.put('/v1/vms/web-1/migration', offerBody())
  await host.put('/v1/maintenance', CORDON)
  const take = { migration_id: 'move-7', source_url: 'https://192.0.2.1:9001' }
  // There is no peer at that address yet: a request to it would be another refusal.
  assertProblem(await host.put('/v1/vms/web-1/arrival', take), 409, 'host_cordoned')
  sourceHosts.peers.set('https://192.0.2.1:9001', source.departures)
  await host.put('/v1/maintenance', { state: 'schedulable' })
  assert.equal((await host.put('/v1/vms/web-1/arrival', take)).status, 202)
  await host.put('/v1/maintenance', CORDON)
  assert.equal((await host.put('/v1/vms/web-1/arrival', take)).status, 200)
})

test('a cordoned host lets no VM grow, and takes every other change', async (t) => {
  const host = await stage(t)
  await host.put('/v1/vms/web-1', createBody(STOPPED))
  stopped(host)
  await host.put('/v1/maintenance', CORDON)
  const { desired } = (await host.call({ path: '/v1/vms/web-1' })).json
  const present = desired.compute
  for (const more of [{ memory_mib: present.memory_mib + 1 }, { cpu_millicores: present.cpu_millicores + 1 }])
    assertProblem(await host.put('/v1/vms/web-1/compute', { ...present, ...more }), 409, 'host_cordoned')
  const diskMib = desired.disk.size_mib
  assertProblem(await host.put('/v1/vms/web-1/disk', { size_mib: diskMib + 1 }), 409, 'host_cordoned')
  const grown = { ...present, disk: { size_mib: diskMib + 1 } }
  assertProblem(await host.put('/v1/vms/web-1/resize', grown), 409, 'host_cordoned')
  const smaller = { ...present, memory_mib: present.memory_mib - 1 }
  assert.equal((await host.put('/v1/vms/web-1/compute', smaller)).status, 202)
  assert.equal((await host.put('/v1/vms/web-1/power', { state: 'running' })).status, 202)
  assert.equal((await host.put('/v1/vms/web-1/migration', offerBody())).status, 202)
})

test('a drain shows the guests that are left, and what keeps them', async (t) => {
  const host = await stage(t)
  await host.put('/v1/vms/web-1', createBody())
  host.store.vms.recordProgress(WEB, { observed: { state: 'running', sinceMs: 1 }, nowMs: 1 })
  const { status, json } = await host.put('/v1/maintenance', { state: 'drained' })
  assert.equal(status, 202)
  assert.deepEqual(
    [json.observed_state, json.drain, json.left],
    [
      'draining',
      { guests: 'sleep', grace_seconds: 60, at_once: 2 },
      [{ vm_id: 'web-1', state: 'running', under_way: false }],
    ],
  )
  assert.deepEqual(host.pokes.at(-1), 'host: the host is to be drained')
  host.store.vms.recordProgress(WEB, { observed: { state: 'sleeping', sinceMs: 1 }, nowMs: 1 })
  host.store.maintenance.noteEmpty(true, 5)
  const empty = (await host.call({ path: '/v1/maintenance' })).json
  assert.deepEqual(
    [empty.observed_state, empty.empty_since, empty.left],
    ['drained', '1970-01-01T00:00:00.005Z', []],
  )
  const other = createBody({ network: { ipv4_address: '192.0.2.11' } })
  assertProblem(await host.put('/v1/vms/web-2', other), 409, 'host_cordoned')
})

test('how guests come to rest is taken only for a host that is to be drained', async (t) => {
  const host = await stage(t)
  const answer = await host.put('/v1/maintenance', { state: 'cordoned', drain: { guests: 'stop' } })
  assert.deepEqual(assertProblem(answer, 400, 'invalid_request').errors?.[0]?.pointer, '/drain')
  const wide = { state: 'drained', drain: { at_once: 1000 } }
  assertProblem(await host.put('/v1/maintenance', wide), 400, 'invalid_request')
})

test('a state that another request has changed since is not replaced by one with If-Match', async (t) => {
  const host = await stage(t)
  const seen = await host.call({ path: '/v1/maintenance' })
  const put = (body: unknown, tag: unknown) =>
    host.call({ method: 'PUT', path: '/v1/maintenance', body, headers: { 'if-match': String(tag) } })
  const cordoned = await put(CORDON, seen.headers.etag)
  assert.equal(cordoned.status, 202)
  assert.notEqual(cordoned.headers.etag, seen.headers.etag)
  assertProblem(await put({ state: 'schedulable' }, seen.headers.etag), 412, 'precondition_failed')
  const { headers, json } = await host.call({ path: '/v1/maintenance' })
  assert.deepEqual([headers.etag, json.state], [cordoned.headers.etag, 'cordoned'])
  assert.equal((await put({ state: 'schedulable' }, headers.etag)).status, 202)
})
