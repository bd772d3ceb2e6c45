import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { assertProblem, makePki, startControllerHost } from './support/controller-host.ts'
import { eventually } from './support/eventually.ts'
import { Course, createVm, get, NIGHTLY, remove, start, startBody } from './support/snapshots.ts'
import type { TestContext } from 'node:test'
import type { SnapshotId } from '../../src/core/snapshots/record.ts'
import type { Answer, ControllerHost, Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** Creates snapshots of two VMs: one completed, one failed, one packing, one pending. */
async function withFour(t: TestContext): Promise<ControllerHost> {
  const host = await startControllerHost(t, pki)
  for (const vm of ['web-1', 'web-2']) await createVm(host, vm)
  for (const id of ['d', 'b', 'c']) await start(host, startBody(), id)
  await start(host, { ...startBody(), vm_id: 'web-2' }, 'a')
  const course = (id: string): Course => new Course(host, id as SnapshotId)
  course('a').sendAll()
  course('a').complete()
  course('b').fail({ resumable: false })
  course('c').capture(200)
  course('c').pack(1)
  return host
}

const list = (host: ControllerHost, query = ''): Promise<Answer> =>
  host.call({ path: `/v1/snapshots${query}` })

const idsOf = ({ json }: Answer): string[] => json.items.map(({ id }: Json) => id)

test('the list has snapshots as their own route answers them, in the order of their ids', async (t) => {
  const host = await withFour(t)
  const { json } = await list(host)
  assert.deepEqual(
    json.items.map(({ id, status }: Json) => [id, status]),
    [
      ['a', 'completed'],
      ['b', 'failed'],
      ['c', 'uploading'],
      ['d', 'pending'],
    ],
  )
  for (const item of json.items) assert.deepEqual(item, (await get(host, item.id)).json)
  assert.equal('next_cursor' in json, false)
})

test('a host without snapshots lists none', async (t) => {
  const host = await startControllerHost(t, pki)
  assert.deepEqual((await list(host)).json, { items: [] })
})

test('pages follow each other without a gap, even if the last item of a page is gone', async (t) => {
  const host = await withFour(t)
  const first = await list(host, '?limit=2')
  assert.deepEqual(idsOf(first), ['a', 'b'])
  await remove(host, 'b')
  const second = await list(host, `?limit=2&cursor=${first.json.next_cursor}`)
  assert.deepEqual(idsOf(second), ['c', 'd'])
  assert.equal('next_cursor' in second.json, false)
})

test('lists are filtered by status and by VM, even if the VM is gone', async (t) => {
  const host = await withFour(t)
  assert.deepEqual(idsOf(await list(host, '?status=uploading')), ['c'])
  assert.deepEqual(idsOf(await list(host, '?status=pending')), ['d'])
  assert.deepEqual(idsOf(await list(host, '?vm_id=web-2')), ['a'])
  assert.deepEqual(idsOf(await list(host, '?vm_id=web-1&status=failed')), ['b'])
  assert.deepEqual(idsOf(await list(host, '?vm_id=web-2&status=failed')), [])
  await host.call({ method: 'DELETE', path: '/v1/vms/web-2' })
  host.store.vms.forget('web-2' as never, 0)
  assert.deepEqual(idsOf(await list(host, '?vm_id=web-2')), ['a'])
})

test('an invalid page of this list is refused with its place', async (t) => {
  const host = await withFour(t)
  const page = await host.call({ path: '/v1/vms?limit=1' })
  for (const [query, pointer] of [
    [`?cursor=${page.json.next_cursor}`, '/cursor'],
    ['?limit=0', '/limit'],
    ['?limit=1001', '/limit'],
    ['?status=lost', '/status'],
    ['?vm_id=WEB', '/vm_id'],
    ['?state=running', '/state'],
  ] as const) {
    const { errors } = assertProblem(await list(host, query), 400, 'invalid_request')
    assert.equal(errors[0].pointer, pointer, query)
  }
})

/** Starts a long poll, and waits until the server holds it. */
async function held(host: ControllerHost): Promise<{ readonly answer: Promise<Answer> }> {
  const { headers } = await get(host)
  const answer = host.call({
    path: '/v1/snapshots/nightly-1',
    headers: { 'if-none-match': headers.etag ?? '', prefer: 'wait=60' },
  })
  await eventually(() => host.snapshotWaits.size === 1)
  return { answer }
}

async function withOne(t: TestContext): Promise<ControllerHost> {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  await start(host)
  return host
}

test('a long poll is answered as soon as the snapshot makes progress', async (t) => {
  const host = await withOne(t)
  const { answer } = await held(host)
  new Course(host).capture(200)
  const { status, json, headers } = await answer
  assert.deepEqual([status, json.progress.phase], [200, 'packing'])
  assert.equal(headers['preference-applied'], 'wait=60')
  assert.equal(headers.etag, `"${json.revision}"`)
  assert.equal(host.snapshotWaits.size, 0)
})

test('a long poll over a snapshot that is deleted is answered with 404', async (t) => {
  const host = await withOne(t)
  const { answer } = await held(host)
  await remove(host)
  assertProblem(await answer, 404, 'not_found')
})

test('a change of another snapshot, or of a VM with the same id, wakes no long poll', async (t) => {
  const host = await withOne(t)
  const { answer } = await held(host)
  await createVm(host, 'nightly-1')
  await start(host, startBody(), 'nightly-2')
  assert.equal(host.snapshotWaits.size, 1)
  host.store.snapshots.touch(NIGHTLY, 9000)
  assert.equal((await answer).status, 200)
})

test('a known revision is 304, at once or when the time is up', async (t) => {
  const host = await withOne(t)
  const { headers } = await get(host)
  const path = '/v1/snapshots/nightly-1'
  const known = { 'if-none-match': headers.etag ?? '' }
  assert.equal((await host.call({ path, headers: known })).status, 304)
  assert.equal((await host.call({ path, headers: { ...known, prefer: 'wait=1' } })).status, 304)
  assert.equal(
    (await host.call({ path, headers: { 'if-none-match': '"0"', prefer: 'wait=60' } })).status,
    200,
  )
})

test('a daemon that stops answers clients that wait for a snapshot, at once', async (t) => {
  const host = await withOne(t)
  const { answer } = await held(host)
  await host.close(60_000)
  assert.equal((await answer).status, 304)
})
