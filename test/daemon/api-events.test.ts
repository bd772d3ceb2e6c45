import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { before, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../src/config/limits.ts'
import { ApiProblem } from '../../src/client/api-problem.ts'
import { readEvents } from '../../src/client/events.ts'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { until } from '../contract/until.ts'
import { eventually } from './support/eventually.ts'
import { userTimeout } from './support/user-timeout.ts'
import type { TestContext } from 'node:test'
import type { EventBody } from '../../src/core/events/event.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { ObservedState } from '../../src/core/vm/record.ts'
import type { EventSight } from '../../src/client/events.ts'
import type { ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const id = 'web-1' as VmId
const path = `/v1/vms/${id}`

const create = (host: ControllerHost, name: string = id, ipv4 = '192.0.2.10') =>
  host.call({
    method: 'PUT',
    path: `/v1/vms/${name}`,
    body: createBody({ network: { ipv4_address: ipv4 } }),
  })

const show = (host: ControllerHost, state: ObservedState, nowMs = 2): void =>
  void host.store.vms.recordProgress(id, { observed: { state, sinceMs: 2 }, nowMs })

const noise = (): EventBody => ({
  kind: 'admission_refused',
  vmId: 'noise' as VmId,
  code: 'insufficient_capacity',
  detail: 'x'.repeat(1000),
})

/** A reader of events, and what it has read. */
class Reader {
  readonly sights: EventSight[] = []
  readonly ended: Promise<unknown>
  readonly #ending = new AbortController()

  constructor(t: TestContext, host: ControllerHost, options: Partial<Parameters<typeof readEvents>[1]> = {}) {
    const connection = {
      url: `https://127.0.0.1:${host.port}`,
      ca: pki.authority.certificate,
      cert: pki.controller.certificate,
      key: pki.controller.key,
    }
    const sights = readEvents(connection, {
      follow: true,
      signal: this.#ending.signal,
      sleep: (_ms, signal) => delay(5, undefined, { signal }),
      ...options,
    })
    this.ended = this.#read(sights)
    t.after(() => this.end())
  }

  async end(reason?: Error): Promise<void> {
    this.#ending.abort(reason)
    await this.ended
  }

  /** Resolves when so many events were read. */
  has(count: number): Promise<void> {
    return eventually(() => this.words.length >= count)
  }

  get starts(): readonly object[] {
    return this.sights.flatMap((sight) => (sight.kind === 'start' ? [sight.start] : []))
  }

  get words(): readonly string[] {
    return this.sights.flatMap((sight) =>
      sight.kind === 'event' ? [[sight.event.kind, sight.event.from, sight.event.to].join(' ').trim()] : [],
    )
  }

  async #read(sights: AsyncIterable<EventSight>): Promise<unknown> {
    try {
      for await (const sight of sights) this.sights.push(sight)
      return undefined
    } catch (error) {
      return error
    }
  }
}

test('a reader gets what is kept and then what happens', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const reader = new Reader(t, host, { after: 0 })
  await reader.has(1)
  show(host, 'starting')
  await reader.has(2)
  assert.deepEqual(reader.starts, [{ after: 0, kept_after: 0, missed: false }])
  assert.deepEqual(reader.words, ['vm_created  pending', 'vm_state pending starting'])
  const [, first] = reader.sights
  const { headers } = await host.call({ path })
  assert.ok(first?.kind === 'event' && first.event.vm_id === id)
  assert.match(first.event.operation_id ?? '', /^op-/)
  assert.ok(first.event.sequence < Number(headers.etag?.replaceAll('"', '')) + 2)
})

test('without a number a reader gets only what happens from then on', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const reader = new Reader(t, host)
  await eventually(() => reader.starts.length === 1)
  show(host, 'starting')
  await reader.has(1)
  assert.deepEqual(reader.words, ['vm_state pending starting'])
})

test('a reader that does not follow gets what is kept, of one VM if it wants', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  await create(host, 'web-2', '192.0.2.11')
  const reader = new Reader(t, host, { after: 0, vmId: 'web-2', follow: false })
  assert.equal(await reader.ended, undefined)
  assert.equal(reader.words.length, 1)
})

test('a reader misses nothing while the daemon is away, and gets nothing twice', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const reader = new Reader(t, host, { after: 0 })
  await reader.has(1)
  await host.close(1000)
  await eventually(() => reader.sights.some(({ kind }) => kind === 'silent'))
  show(host, 'starting')
  show(host, 'running')
  await host.reopen()
  await reader.has(3)
  assert.deepEqual(reader.words, [
    'vm_created  pending',
    'vm_state pending starting',
    'vm_state starting running',
  ])
  assert.deepEqual(
    reader.starts.map((start) => 'missed' in start && start.missed),
    [false, false],
  )
})

test('a reader whose events are not kept any more is informed, and continues with those that are', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const { items } = (await host.call({ path: `${path}/events` })).json
  const known = items[0].sequence
  const many = Array.from({ length: limits.eventsMax + limits.eventsPruneEvery }, noise)
  host.store.events.add(1, ...many)
  show(host, 'starting')
  const reader = new Reader(t, host, { after: known, vmId: id, follow: false })
  await reader.ended
  const keptAfter = host.store.events.keptAfter
  assert.deepEqual(reader.starts, [{ after: keptAfter, kept_after: keptAfter, missed: true }])
  assert.deepEqual(reader.words, ['vm_state pending starting'])
  const page = (await host.call({ path: `${path}/events` })).json
  assert.equal(page.kept_after, keptAfter)
  assert.deepEqual(
    (await host.call({ path: `/v1/vms?changed_after=${known}` })).json.code,
    'changes_not_kept',
    'a deletion may be among what is not kept',
  )
})

test('Last-Event-ID comes before the number of the query, and must be a number', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  const { newest } = host.store.events
  const read = (last: string) =>
    host.call({ path: '/v1/events?after=0&follow=false', headers: { 'last-event-id': last } })
  const { text, headers } = await read(String(newest))
  assert.equal(headers['content-type'], 'text/event-stream')
  assert.equal(
    text,
    `retry: 2000\nevent: start\nid: ${newest}\ndata: {"after":${newest},"kept_after":0,"missed":false}\n\n`,
  )
  const { detail, errors } = assertProblem(await read('x'), 400, 'invalid_request')
  assert.equal(detail, 'the header Last-Event-ID must be the id of an earlier message, a whole number')
  assert.equal(errors[0].pointer, '/last-event-id')
  assert.equal((await host.call({ method: 'HEAD', path: '/v1/events' })).status, 405)
})

test('the listener closes at once while events are read', async (t) => {
  const host = await startControllerHost(t, pki)
  const reader = new Reader(t, host)
  await eventually(() => reader.starts.length === 1)
  await host.close(60_000)
})

test('a reader that is ended while it waits to connect again throws the reason', async (t) => {
  const host = await startControllerHost(t, pki)
  const reader = new Reader(t, host, { sleep: (_ms, signal) => delay(600_000, undefined, { signal }) })
  await eventually(() => reader.starts.length === 1)
  await host.close(60_000)
  await eventually(() => reader.sights.some(({ kind }) => kind === 'silent'))
  const reason = new Error('enough')
  await reader.end(reason)
  assert.equal(await reader.ended, reason)
})

test('too many readers are refused, and a place is free when one has gone', async (t) => {
  const host = await startControllerHost(t, pki)
  const readers = Array.from({ length: limits.eventReadersPerClientMax }, () => new Reader(t, host))
  await eventually(() => readers.every(({ starts }) => starts.length === 1))
  const refused = await new Reader(t, host).ended
  assert.ok(refused instanceof ApiProblem && refused.code === 'event_readers_full', String(refused))
  await readers[0]?.end()
  await until(
    async () => (await host.call({ path: '/v1/events?follow=false' })).status,
    (status) => status === 200,
  )
})

test('a reader that finds no place when it connects again goes on, and gets one later', async (t) => {
  const host = await startControllerHost(t, pki)
  const gate = Promise.withResolvers<void>()
  const sleep = async (): Promise<void> => gate.promise
  const waiting = new Reader(t, host, { sleep })
  await eventually(() => waiting.starts.length === 1)
  await host.close(0)
  await host.reopen()
  const readers = Array.from({ length: limits.eventReadersPerClientMax }, () => new Reader(t, host))
  await eventually(() => readers.every(({ starts }) => starts.length === 1))
  gate.resolve()
  const isRefused = (sight: EventSight): boolean =>
    'because' in sight && sight.because instanceof ApiProblem && sight.because.code === 'event_readers_full'
  await eventually(() => waiting.sights.some(isRefused))
  await readers[0]?.end()
  await eventually(() => waiting.starts.length === 2)
})

test('the connection of a stream ends if its reader vanishes, and no other connection does', async (t) => {
  const host = await startControllerHost(t, pki)
  const bounded = (): number => openDescriptors().filter((fd) => hasUserTimeout(fd)).length
  assert.equal((await host.call({ path: '/v1/sync' })).status, 200)
  assert.equal(bounded(), 0)
  const reader = new Reader(t, host)
  await eventually(() => reader.starts.length === 1)
  assert.equal(bounded(), 1)
})

/** Returns the descriptors of this process, which has both ends of each connection. */
const openDescriptors = (): readonly number[] => readdirSync('/proc/self/fd').map(Number)

function hasUserTimeout(fd: number): boolean {
  try {
    return userTimeout(fd) === limits.eventReaderGoneMs
  } catch {
    // Another kind of file.
    return false
  }
}

test('the events of a VM are listed page by page, also when the VM is gone', async (t) => {
  const host = await startControllerHost(t, pki)
  await create(host)
  await host.call({ method: 'DELETE', path })
  show(host, 'deleting')
  host.store.vms.forget(id, 3)
  const first = (await host.call({ path: `${path}/events?limit=2` })).json
  const second = (await host.call({ path: `${path}/events?limit=2&cursor=${first.next_cursor}` })).json
  assert.deepEqual(
    [...first.items, ...second.items].map(({ kind }) => kind),
    ['vm_created', 'vm_requested', 'vm_state', 'vm_deleted'],
  )
  assert.equal(second.next_cursor, undefined)
  assert.deepEqual((await host.call({ path: '/v1/vms/other/events' })).json, { items: [], kept_after: 0 })
})

test('a creation without room is an event, once for a while', async (t) => {
  const host = await startControllerHost(t, pki)
  host.capacity.total.memoryMib = 1
  const { json } = await create(host)
  assert.equal(json.code, 'insufficient_capacity')
  await create(host)
  const { items } = (await host.call({ path: `${path}/events` })).json
  assert.deepEqual(
    items.map(({ kind, code, detail }: Record<string, string>) => [kind, code, detail]),
    [['admission_refused', 'insufficient_capacity', json.detail]],
  )
})

test('a watch on the list gets what has changed and what is gone, and a revision to go on with', async (t) => {
  const host = await startControllerHost(t, pki)
  const list = async (query: string, headers: Record<string, string> = {}) =>
    (await host.call({ path: `/v1/vms${query}`, headers })).json
  await create(host)
  await create(host, 'web-2', '192.0.2.11')
  const { revision } = await list('')
  assert.deepEqual(await list(`?changed_after=${revision}`), { items: [], deleted: [], revision })
  const watch = list(`?changed_after=${revision}`, { prefer: 'wait=60' })
  await eventually(() => host.dependencies.listWaits.size === 1)
  show(host, 'starting')
  const changed = await watch
  assert.deepEqual(
    changed.items.map((vm: { id: string }) => vm.id),
    ['web-1'],
  )
  await host.call({ method: 'DELETE', path })
  host.store.vms.forget(id, 3)
  const gone = await list(`?changed_after=${changed.revision}`)
  assert.deepEqual([gone.items, gone.deleted], [[], ['web-1']])
  const some = await list(`?changed_after=0&limit=1`)
  assert.deepEqual([some.items[0].id, some.deleted], ['web-2', []])
  assert.deepEqual((await list(`?changed_after=${some.revision}`)).deleted, ['web-1'])
  assertProblem(await host.call({ path: '/v1/vms?changed_after=1&state=running' }), 400, 'invalid_request')
})
