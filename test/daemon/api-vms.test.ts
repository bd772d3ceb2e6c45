import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { eventually } from './support/eventually.ts'
import { typed, vmRequest } from './support/typed.ts'
import type { Generation, VmId } from '../../src/core/ids.ts'
import type { Vm } from '../../src/client/api-client.ts'
import type { ControllerHost, Json, Pki } from './support/controller-host.ts'
import type { Changes, Typed } from './support/typed.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const params = { path: { id: 'web-1' } }

const create = ({ api }: ControllerHost, id = 'web-1', changes: Changes = {}): Promise<Typed<Vm>> =>
  typed(api.PUT('/v1/vms/{id}', { params: { path: { id } }, body: vmRequest(changes) }))

const get = ({ api }: ControllerHost): Promise<Typed<Vm>> => typed(api.GET('/v1/vms/{id}', { params }))

const setPower = (
  { api }: ControllerHost,
  state: Vm['desired']['power'],
  header: { 'if-match'?: string } = {},
): Promise<Typed<Vm>> =>
  typed(api.PUT('/v1/vms/{id}/power', { params: { ...params, header }, body: { state } }))

const remove = ({ api }: ControllerHost, header: { 'if-match'?: string } = {}): Promise<Typed<Vm>> =>
  typed(api.DELETE('/v1/vms/{id}', { params: { ...params, header } }))

/** Returns a VM without addresses, so that several fit on one host. */
const bare = { network: undefined }

/** The revision that is stored, of 16 digits, as a header has it. */
function etagOf(host: ControllerHost): string {
  const { revision } = host.store.vms.get('web-1' as VmId) ?? assert.fail('there is no VM')
  assert.match(String(revision), /^[0-9]{16}$/)
  return `"${revision}"`
}

test('creating stores the desired state and answers 202 with the whole VM and its operation', async (t) => {
  const host = await startControllerHost(t, pki)
  const { status, headers, json } = await create(host)
  assert.equal(status, 202)
  assert.equal(headers.etag, etagOf(host))
  assert.equal(json.id, 'web-1')
  assert.deepEqual(json.desired.compute, {
    cpu_millicores: 1500,
    memory_mib: 512,
    sleep_after_idle_seconds: 0,
  })
  assert.deepEqual(json.generations, { desired: 1, observed: 0 })
  assert.match(json.operation_id ?? '', /^op-[0-9a-f]{24}$/)
  assert.deepEqual(json.observed, {
    state: 'pending',
    state_since: json.created_at,
    operation_id: json.operation_id,
  })
  assert.match(json.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(host.pokes, ['web-1: created'])
})

test('a repeated request answers 200, raises nothing and names no operation', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const { status, json } = await create(host)
  assert.equal(status, 200)
  assert.equal(json.generations.desired, 1)
  assert.equal(json.operation_id, undefined)
})

test('an IPv6 address is answered in its canonical text, and is the same request in any other', async (t) => {
  const host = await startControllerHost(t, pki)
  const { json } = await create(host, 'web-1', { network: { ipv6_address: '2001:0DB8:0:0::00AA' } })
  assert.equal(json.desired.network?.ipv6_address, '2001:db8::aa')
  const { status } = await create(host, 'web-1', { network: { ipv6_address: '2001:db8::aa' } })
  assert.equal(status, 200)
})

test('a different request for the same id is a conflict', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  assertProblem(await create(host, 'web-1', { disk: { size_mib: 4096 } }), 409, 'conflict')
})

test('a taken address and exhausted user ids are refused by name', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  assertProblem(await create(host, 'web-2'), 409, 'address_in_use')
  await create(host, 'web-2', bare)
  await create(host, 'web-3', bare)
  assertProblem(await create(host, 'web-4', bare), 409, 'user_ids_exhausted')
})

test('reading answers the VM with its revision as ETag; HEAD answers the same without a body', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const { status, headers, json } = await get(host)
  assert.equal(status, 200)
  assert.equal(headers.etag, etagOf(host))
  assert.equal(json.operation_id, undefined)
  const head = await host.call({ method: 'HEAD', path: '/v1/vms/web-1' })
  assert.equal(head.status, 200)
  assert.equal(head.headers.etag, headers.etag)
  assert.equal(head.text, '')
})

test('setting power raises a generation once; asking for the desired state changes nothing', async (t) => {
  const host = await startControllerHost(t, pki)
  const created = await create(host)
  const stopped = await setPower(host, 'stopped')
  assert.equal(stopped.status, 202)
  assert.equal(stopped.json.desired.power, 'stopped')
  assert.equal(stopped.json.generations.desired, 2)
  assert.equal(stopped.headers.etag, etagOf(host))
  assert.notEqual(stopped.headers.etag, created.headers.etag)
  const again = await setPower(host, 'stopped')
  assert.equal(again.status, 200)
  assert.equal(again.json.generations.desired, 2)
  assert.deepEqual(host.pokes, ['web-1: created', 'web-1: power stopped'])
})

test('a stop with grace says until when, and a later stop without it is a change', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const stop = (body: { grace_seconds?: number }): Promise<Typed<Vm>> =>
    typed(host.api.PUT('/v1/vms/{id}/power', { params, body: { state: 'stopped', ...body } }))
  const asked = await stop({ grace_seconds: 30 })
  assert.equal(asked.status, 202)
  const hardAt = Date.parse(asked.json.observed.stops_hard_at ?? '')
  assert.ok(Math.abs(hardAt - Date.parse(asked.json.updated_at) - 30_000) < 5)
  const later = await stop({ grace_seconds: 60 })
  assert.deepEqual(
    [later.status, later.json.observed.stops_hard_at],
    [200, asked.json.observed.stops_hard_at],
  )
  const sooner = await stop({ grace_seconds: 10 })
  assert.equal(sooner.status, 202)
  assert.ok(Date.parse(sooner.json.observed.stops_hard_at ?? '') < hardAt)
  const hard = await stop({})
  assert.deepEqual([hard.status, hard.json.observed.stops_hard_at], [202, undefined])
  assert.deepEqual(hard.json.generations, { desired: 4, observed: 0 })
  assert.equal((await stop({ grace_seconds: 60 })).status, 200)
  assertProblem(
    await host.call({
      method: 'PUT',
      path: '/v1/vms/web-1/power',
      body: { state: 'running', grace_seconds: 30 },
    }),
    400,
    'invalid_request',
  )
})

test('a reboot raises one generation and keeps the power; a stopped VM cannot reboot', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const reboot = (body: { grace_seconds?: number }): Promise<Typed<Vm>> =>
    typed(host.api.POST('/v1/vms/{id}/reboot', { params, body }))
  const asked = await reboot({ grace_seconds: 30 })
  assert.deepEqual([asked.status, asked.json.generations.desired], [202, 2])
  assert.equal(asked.json.desired.power, 'running')
  assert.ok(asked.json.observed.stops_hard_at !== undefined)
  assert.equal((await reboot({ grace_seconds: 60 })).status, 200)
  assert.equal((await reboot({})).status, 202)
  assert.equal((await reboot({})).status, 200)
  await setPower(host, 'stopped')
  assertProblem(await reboot({}), 409, 'vm_stopped')
})

test('deletion is accepted, then repeated without effect, and accepts no further changes', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  assert.equal((await remove(host)).status, 202)
  assert.equal((await remove(host)).status, 200)
  assertProblem(await setPower(host, 'running'), 409, 'vm_deleting')
  assertProblem(await create(host), 409, 'vm_deleting')
  host.store.vms.forget('web-1' as VmId, 0)
  assertProblem(await get(host), 404, 'not_found')
})

test('a missing resource is 404 on every route of a VM but its deletion', async (t) => {
  const host = await startControllerHost(t, pki)
  assertProblem(await get(host), 404, 'not_found')
  assertProblem(await setPower(host, 'running'), 404, 'not_found')
  assertProblem(await setPower(host, 'running', { 'if-match': '"1"' }), 404, 'not_found')
})

test('If-Match lets a change through only at the revision it names', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  assertProblem(await setPower(host, 'stopped', { 'if-match': '"7"' }), 412, 'precondition_failed')
  const etag = etagOf(host)
  assertProblem(await setPower(host, 'stopped', { 'if-match': `W/${etag}` }), 412, 'precondition_failed')
  assert.equal(host.store.vms.get('web-1' as VmId)?.desired.power, 'running')
  assert.equal((await setPower(host, 'stopped', { 'if-match': `"3", ${etag}` })).status, 202)
  assert.equal((await setPower(host, 'paused', { 'if-match': '*' })).status, 202)
  assertProblem(await remove(host, { 'if-match': etag }), 412, 'precondition_failed')
  const fresh = { path: { id: 'web-9' }, header: { 'if-match': '*' } }
  const creation = host.api.PUT('/v1/vms/{id}', { params: fresh, body: vmRequest(bare) })
  assertProblem(await typed(creation), 412, 'precondition_failed')
})

test('a fault stands in observed as text and in parts, and the operation goes when the generations meet', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const generation = 1 as Generation
  host.store.vms.recordProgress('web-1' as VmId, {
    observed: {
      state: 'failed',
      sinceMs: Date.UTC(2030, 0, 1),
      fault: {
        code: 'image_unavailable',
        step: 'image.ensure-fetched',
        message: 'fetching rootfs: GET https://images.example.net/root.img?X-Amz-Signature=CANARY: 403',
        generation,
        sinceMs: Date.UTC(2030, 0, 1),
        attempt: 3,
        nextAttemptAtMs: Date.UTC(2030, 0, 1, 0, 1),
      },
    },
    nowMs: 1,
  })
  const failed = await get(host)
  assert.equal(
    failed.json.observed.error,
    'image.ensure-fetched: fetching rootfs: GET https://images.example.net/root.img?[redacted] 403',
  )
  assert.deepEqual(failed.json.observed.fault, {
    code: 'image_unavailable',
    step: 'image.ensure-fetched',
    generation: 1,
    since: '2030-01-01T00:00:00.000Z',
    attempt: 3,
    next_attempt_at: '2030-01-01T00:01:00.000Z',
  })
  const compute = { cpuMillicores: 1500, memoryMib: 512, sleepAfterIdleSeconds: 0 }
  host.store.vms.recordProgress('web-1' as VmId, {
    observed: {
      state: 'running',
      sinceMs: Date.UTC(2030, 0, 2),
      compute,
      disk: { sizeMib: 2048 },
      startedAtMs: Date.UTC(2030, 0, 2),
    },
    observedGeneration: generation,
    nowMs: 2,
  })
  const running = await get(host)
  assert.deepEqual(running.json.observed, {
    state: 'running',
    state_since: '2030-01-02T00:00:00.000Z',
    compute: { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 },
    disk: { size_mib: 2048 },
    started_at: '2030-01-02T00:00:00.000Z',
  })
  assert.deepEqual(running.json.generations, { desired: 1, observed: 1 })
})

test('until the store is open VM routes answer 503, while liveness answers 200', async (t) => {
  const host = await startControllerHost(t, pki)
  host.storeIsOpen = false
  host.waitingFor.push('the store', 'console adoption')
  const problem = assertProblem(await typed(host.api.GET('/v1/vms')), 503, 'starting_up')
  assert.equal(problem.retryable, true)
  assert.deepEqual((await typed(host.api.GET('/healthz'))).json, {
    status: 'alive',
    version: '1.2.3',
  })
  const waiting = await typed(host.api.GET('/readyz'))
  assert.match(
    assertProblem(waiting, 503, 'starting_up').detail,
    /waiting for the store and console adoption/,
  )
  assert.equal(waiting.headers['retry-after'], '1')
  host.storeIsOpen = true
  host.waitingFor.length = 0
  assert.deepEqual((await typed(host.api.GET('/readyz'))).json, { status: 'ready' })
})

test('a well-formed request id is returned and is in the log with VM and operation; another is replaced', async (t) => {
  const host = await startControllerHost(t, pki)
  const headers = { 'x-request-id': 'Ctl.42_a-b' }
  const { headers: answered, json } = await host.call({
    method: 'PUT',
    path: '/v1/vms/web-1',
    body: createBody(),
    headers,
  })
  assert.equal(answered['x-request-id'], 'Ctl.42_a-b')
  const linesOf = (level: string): Json[] =>
    host.logLines.map((line): Json => JSON.parse(line)).filter((line) => line.level === level)
  await eventually(() => linesOf('info').length > 0)
  assert.equal(linesOf('audit')[0]?.request_id, 'Ctl.42_a-b')
  const [line, ...more] = linesOf('info')
  assert.deepEqual(more, [])
  assert.ok(line !== undefined)
  assert.equal(line.request_id, 'Ctl.42_a-b')
  assert.equal(line.vm_id, 'web-1')
  assert.equal(line.operation_id, json.operation_id)
  assert.equal(line.route, '/v1/vms/:id')
  assert.equal(line.status, 202)
  for (const bad of ['a b', 'x'.repeat(129), 'ü']) {
    const answer = await host.call({ path: '/healthz', headers: { 'x-request-id': bad } })
    assert.match(answer.headers['x-request-id'] as string, /^req-[0-9a-f]{16}$/)
  }
})
