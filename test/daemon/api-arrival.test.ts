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
import type { Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const SOURCE = 'https://192.0.2.1:9001'
const takeBody = (changes: object = {}) => ({ migration_id: 'move-7', source_url: SOURCE, ...changes })

/** Starts a host that offers web-1 to node-2, and that node. */
async function start(t: TestContext, create: object = {}) {
  const [source, host] = [await startControllerHost(t, pki), await startControllerHost(t, pki)]
  const body = createBody({ user_data: '#cloud-config', labels: { env: 'prod' }, ...create })
  assert.equal((await source.call({ method: 'PUT', path: '/v1/vms/web-1', body })).status, 202)
  const awake = { until: new Date(source.host.clock.now() + 600_000).toISOString() }
  await source.call({ method: 'PUT', path: '/v1/vms/web-1/keep-awake', body: awake })
  await source.call({ method: 'PUT', path: '/v1/vms/web-1/migration', body: offerBody() })
  const { sourceHosts } = host.host
  sourceHosts.node = 'node-2' as NodeName
  sourceHosts.peers.set(SOURCE, source.departures)
  return {
    source,
    host,
    take: (changes: object = {}, path = '/v1/vms/web-1/arrival') =>
      host.call({ method: 'PUT', path, body: takeBody(changes) }),
  }
}

test('a VM is taken with everything that it has at its source', async (t) => {
  const { source, host, take } = await start(t)
  const { status, json } = await take()
  assert.equal(status, 202)
  assert.deepEqual(json.observed.arrival, {
    migration_id: 'move-7',
    stage: 'pulling',
    round: 0,
  })
  const there = (await source.call({ path: '/v1/vms/web-1' })).json
  const { migration: _offer, ...desired } = there.desired
  assert.deepEqual(json.desired, desired)
  assert.deepEqual([json.labels, json.created_at], [there.labels, there.created_at])
  assert.ok(there.keep_awake_until !== undefined)
  assert.equal(json.keep_awake_until, there.keep_awake_until)
  assert.deepEqual(json.generations, { desired: 1, observed: 0 })
  const [mine, theirs] = [host, source].map(({ store }) => store.vms.inputs('web-1' as VmId))
  assert.deepEqual([mine?.userData, mine?.request], [theirs?.userData, theirs?.request])
})

test('the same request changes nothing, and may name another address of the source', async (t) => {
  const { host, take } = await start(t)
  await take()
  assert.equal((await take()).status, 200)
  const moved = await take({ source_url: 'https://192.0.2.2:9001' })
  assert.equal(moved.status, 202)
  assert.equal(host.store.vms.get('web-1' as VmId)?.arrival?.source, 'https://192.0.2.2:9001')
  assert.ok(!moved.text.includes('192.0.2.2'), 'an answer holds no URL')
})

test('a dry run stores nothing, and shows what the VM would wait for', async (t) => {
  const { host, take } = await start(t)
  const { status, json } = await take({}, '/v1/vms/web-1/arrival?dry_run=true')
  assert.equal(status, 200)
  assert.equal(json.dry_run.plan.waiting_for, 'the source')
  assert.equal((await host.call({ path: '/v1/vms/web-1' })).status, 404)
})

test('what cannot come is refused before anything is stored', async (t) => {
  const { host, take } = await start(t)
  assertProblem(await take({ migration_id: 'move-8' }), 409, 'migration_unavailable')
  assertProblem(await take({}, '/v1/vms/web-2/arrival'), 400, 'invalid_request')
  host.host.monitor.processor = { vendor: 'OtherVendor', features: [] }
  assertProblem(await take(), 409, 'migration_incompatible')
  host.host.sourceHosts.isCut = true
  assertProblem(await take(), 503, 'source_unreachable')
  assert.equal(host.store.vms.ids().length, 0)
})

test('an id or an address that this host has, and room that it does not have, are refused', async (t) => {
  const { host, take } = await start(t)
  const other = { method: 'PUT', path: '/v1/vms/web-2', body: createBody() } as const
  assert.equal((await host.call(other)).status, 202)
  assertProblem(await take(), 409, 'address_in_use')
  await host.call({ method: 'PUT', path: '/v1/vms/web-1', body: createBody({ network: undefined }) })
  assertProblem(await take(), 409, 'conflict')
})

test('an offer that is past its beginning is refused', async (t) => {
  const { source, take } = await start(t)
  await source.call({ method: 'DELETE', path: '/v1/vms/web-1/migration' })
  const refused = await take()
  assertProblem(refused, 409, 'migration_unavailable')
  assert.match(
    refused.json.detail,
    /^migration move-7 is withdrawn at its source: .*under a new migration id$/,
  )
})

test('a VM that comes takes no change but a deletion, and not even that once everything is here', async (t) => {
  const { host, take } = await start(t)
  await take()
  const stop = { method: 'PUT', path: '/v1/vms/web-1/power', body: { state: 'stopped' } } as const
  assertProblem(await host.call(stop), 409, 'vm_arriving')
  const withdrawal = { method: 'DELETE', path: '/v1/vms/web-1/migration' } as const
  const refused = await host.call(withdrawal)
  assertProblem(refused, 409, 'vm_arriving')
  assert.match(refused.json.detail, /withdraw the offer at its source$/)
  const { arrival } = host.store.vms.get('web-1' as VmId) ?? assert.fail('it was not stored')
  assert.ok(arrival !== undefined)
  host.store.arrivals.set('web-1' as VmId, { ...arrival, stage: 'pulled' }, 1)
  const removal = { method: 'DELETE', path: '/v1/vms/web-1' } as const
  assertProblem(await host.call(removal), 409, 'vm_arriving')
  const withoutSource = { method: 'DELETE', path: '/v1/vms/web-1?source_lost=true' } as const
  assertProblem(await host.call(withoutSource), 409, 'source_not_lost')
  host.store.arrivals.set('web-1' as VmId, { ...arrival, stage: 'refused', because: 'withdrawn' }, 1)
  assertProblem(await host.call(stop), 409, 'vm_arriving')
  assert.equal((await host.call(removal)).status, 202)
})

test('a VM that comes has no console yet: a request for one is not led to a start, which would be refused', async (t) => {
  const { host, take } = await start(t)
  await take()
  for (const path of ['console', 'console?mode=ssh', 'console/log'])
    assertProblem(await host.call({ path: `/v1/vms/web-1/${path}` }), 409, 'vm_arriving')
  assertProblem(await host.call({ path: '/v1/vms/web-1/console?follow=true' }), 426, 'upgrade_required')
})

test('a VM whose source is lost for good is deleted where it waits for its release, and no other VM', async (t) => {
  const { host, take } = await start(t)
  await take()
  const removal = { method: 'DELETE', path: '/v1/vms/web-1' } as const
  const withoutSource = { method: 'DELETE', path: '/v1/vms/web-1?source_lost=true' } as const
  assertProblem(await host.call(withoutSource), 409, 'source_not_lost')
  const { arrival } = host.store.vms.get('web-1' as VmId) ?? assert.fail('it was not stored')
  assert.ok(arrival !== undefined)
  const trouble = { code: 'source_unreachable', retry: 'backoff', message: 'no way to the host' } as const
  host.store.arrivals.set('web-1' as VmId, { ...arrival, trouble }, 1)
  const stop = { method: 'PUT', path: '/v1/vms/web-1/power', body: { state: 'stopped' } } as const
  const early = assertProblem(await host.call(stop), 409, 'vm_arriving')
  assert.match(early.detail, /; if that host is lost for good, delete it here$/)
  host.store.arrivals.set('web-1' as VmId, { ...arrival, stage: 'pulled', trouble }, 1)
  assert.match(assertProblem(await host.call(removal), 409, 'vm_arriving').detail, /source_lost=true$/)
  assert.equal((await host.call(withoutSource)).status, 202)
  await host.call({ method: 'PUT', path: '/v1/vms/web-2', body: createBody({ network: undefined }) })
  const other = { ...withoutSource, path: '/v1/vms/web-2?source_lost=true' }
  assertProblem(await host.call(other), 409, 'source_not_lost')
})

test('a source is named by its address alone', async (t) => {
  const { take } = await start(t)
  for (const source_url of ['http://192.0.2.1:9001', 'https://192.0.2.1:9001/v1', 'https://a@192.0.2.1', 'x'])
    assertProblem(await take({ source_url }), 400, 'invalid_request')
})

test('a VM whose monitor this host does not offer is refused before anything moves', async (t) => {
  const { host, take } = await start(t)
  host.capacity.notOffered.set('qemu', '/usr/bin/qemu-system-x86_64 is not a program that can be run')
  const problem = assertProblem(await take(), 422, 'monitor_not_offered')
  assert.match(problem.detail, /does not offer qemu: .* it offers firecracker$/)
  assert.equal(host.store.vms.ids().length, 0)
})
