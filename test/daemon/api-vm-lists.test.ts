import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { breakRecord } from '../break-record.ts'
import { makePki, startControllerHost } from './support/controller-host.ts'
import { typed, vmRequest } from './support/typed.ts'
import type { Generation, VmId } from '../../src/core/ids.ts'
import type { Vm } from '../../src/client/api-client.ts'
import type { operations } from '../../src/client/schema.d.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'
import type { Changes, Typed } from './support/typed.ts'

type Query = NonNullable<operations['listVms']['parameters']['query']>

let pki: Pki
before(async () => {
  pki = await makePki()
})

const create = ({ api }: ControllerHost, id: string, changes: Changes): Promise<Typed<Vm>> =>
  typed(api.PUT('/v1/vms/{id}', { params: { path: { id } }, body: vmRequest(changes) }))

/** Returns a VM without addresses, so that several fit on one host. */
const bare = { network: undefined }

test('a list goes through all VMs in the order of their ids, page by page, and filters by state', async (t) => {
  const host = await startControllerHost(t, pki)
  const list = (query: Query = {}) => typed(host.api.GET('/v1/vms', { params: { query } }))
  assert.deepEqual((await list()).json, { items: [], revision: host.store.events.newest })
  for (const id of ['b', 'c', 'a']) await create(host, id, bare)
  const seen: string[] = []
  let page: Query = { limit: 2 }
  for (;;) {
    const { status, json } = await list(page)
    assert.equal(status, 200)
    seen.push(...json.items.map(({ id }) => id))
    if (json.next_cursor === undefined) break
    page = { limit: 2, cursor: json.next_cursor }
  }
  assert.deepEqual(seen, ['a', 'b', 'c'])
  host.store.vms.recordProgress('b' as VmId, { observed: { state: 'failed', sinceMs: 1 }, nowMs: 1 })
  const failed = await list({ state: 'failed' })
  assert.deepEqual(
    failed.json.items.map(({ id }) => id),
    ['b'],
  )
})

test('states alone are listed as the VMs are: by page, by state and by label', async (t) => {
  const host = await startControllerHost(t, pki)
  const states = (query: Query = {}) => typed(host.api.GET('/v1/vm-states', { params: { query } }))
  assert.deepEqual((await states()).json, { items: [], revision: host.store.events.newest })
  for (const id of ['b', 'c', 'a']) await create(host, id, { ...bare, labels: { name: id } })
  const fault = {
    code: 'network_failed',
    step: 'network.ensure-tap',
    message: 'making tap: busy',
    generation: 1 as Generation,
    sinceMs: 1,
    attempt: 1,
    nextAttemptAtMs: 2,
  } as const
  host.store.vms.recordProgress('b' as VmId, { observed: { state: 'failed', sinceMs: 1, fault }, nowMs: 1 })
  const { json: first } = await states({ limit: 2 })
  const generations = { desired: 1, observed: 0 }
  assert.deepEqual(first.items, [
    { id: 'a', generations, state: 'pending' },
    { id: 'b', generations, state: 'failed', error: 'network.ensure-tap: making tap: busy' },
  ])
  assert.equal(first.revision, host.store.events.newest)
  const cursor = first.next_cursor ?? assert.fail('there is another page')
  const idsOf = async (query: Query): Promise<string[]> =>
    (await states(query)).json.items.map(({ id }) => id)
  assert.deepEqual(await idsOf({ cursor }), ['c'])
  assert.deepEqual(await idsOf({ state: 'failed' }), ['b'])
  assert.deepEqual(await idsOf({ label: 'name=c' }), ['c'])
  assert.deepEqual(await idsOf({ label: 'name=b,name=c' }), [])
  assert.deepEqual(await idsOf({ label: Array.from({ length: 1000 }, () => 'name=b').join(',') }), ['b'])
})

test('a list of states that was answered before shows what changed since', async (t) => {
  const host = await startControllerHost(t, pki)
  const list = async () => (await typed(host.api.GET('/v1/vm-states'))).json
  await create(host, 'web', bare)
  const first = await list()
  assert.deepEqual(await list(), first)
  const observed = { state: 'stopped', sinceMs: 1 } as const
  host.store.vms.recordProgress('web' as VmId, { observed, nowMs: 1 })
  assert.equal((await list()).items[0]?.state, 'stopped')
  // An event about something else.
  host.store.maintenance.noteEmpty(true, 1)
  const { revision } = await list()
  assert.equal(revision, host.store.events.newest)
  await create(host, 'web-2', bare)
  assert.deepEqual(
    (await list()).items.map(({ id }) => id),
    ['web', 'web-2'],
  )
})

test('a list that was answered before shows each VM as it is now', async (t) => {
  const host = await startControllerHost(t, pki)
  const list = async () => (await typed(host.api.GET('/v1/vms'))).json
  const one = async (id: string) =>
    (await typed(host.api.GET('/v1/vms/{id}', { params: { path: { id } } }))).json
  for (const id of ['web', 'web-2']) await create(host, id, bare)
  assert.deepEqual((await list()).items, [await one('web'), await one('web-2')])
  const observed = { state: 'stopped', sinceMs: 1 } as const
  host.store.vms.recordProgress('web' as VmId, { observed, nowMs: 1 })
  const { items, revision } = await list()
  assert.deepEqual(items, [await one('web'), await one('web-2')])
  assert.equal(items[0]?.observed.state, 'stopped')
  assert.equal(revision, host.store.events.newest)
})

test('a record that cannot be read keeps its own VM alone out of lists', async (t) => {
  const host = await startControllerHost(t, pki)
  const labels = { env: 'prod' }
  for (const id of ['a', 'b', 'c']) await create(host, id, { ...bare, labels })
  breakRecord(host.directory, 'b' as VmId)
  const list = (query: Query) => typed(host.api.GET('/v1/vms', { params: { query } }))
  const idsOf = async (query: Query): Promise<string[]> => (await list(query)).json.items.map(({ id }) => id)
  assert.deepEqual(await idsOf({}), ['a', 'c'])
  assert.deepEqual(await idsOf({ label: 'env=prod' }), ['a', 'c'])
  assert.deepEqual(await idsOf({ changed_after: 0 }), ['a', 'c'])
  // Pages go on behind it.
  const { json: second } = await list({ limit: 1, ...cursorOf((await list({ limit: 1 })).json) })
  assert.deepEqual(second.items, [])
  const { json: third } = await list({ limit: 1, ...cursorOf(second) })
  assert.deepEqual(
    third.items.map(({ id }) => id),
    ['c'],
  )
  // So do changes.
  const [first] = (await list({ changed_after: 0, limit: 1 })).json.items
  const { json: next } = await list({ changed_after: first?.revision ?? 0, limit: 1 })
  assert.deepEqual([next.items, await idsOf({ changed_after: next.revision ?? 0 })], [[], ['c']])
  const states = await typed(host.api.GET('/v1/vm-states', { params: { query: { label: 'env=prod' } } }))
  assert.deepEqual(
    states.json.items.map(({ id }) => id),
    ['a', 'c'],
  )
})

const cursorOf = ({ next_cursor: cursor }: { readonly next_cursor?: string | undefined }) => ({
  cursor: cursor ?? assert.fail('there is another page'),
})
