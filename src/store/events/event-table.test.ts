import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { lockStore } from '../../../test/locked-store.ts'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { vmOfEvent } from '../../core/events/event.ts'
import { lacksChanges, lacksEvents } from '../../core/events/history.ts'
import { selectEvents } from './event-table.ts'
import type { EventBody, StoredEvent } from '../../core/events/event.ts'
import type { OperationId, VmId } from '../../core/ids.ts'
import type { ObservedState } from '../../core/vm/record.ts'
import type { Store } from '../store.ts'
import type { EventQuery } from './event-table.ts'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }
const refusal = (vmId = 'web-1'): EventBody => ({
  kind: 'admission_refused',
  vmId: vmId as VmId,
  code: 'insufficient_capacity',
  detail: 'the host is short',
})

const all = ({ events }: Store): readonly StoredEvent[] => events.list({ after: 0, limit: 100_000 })

const words = (store: Store): readonly string[] =>
  all(store).map(({ body }) =>
    [body.kind, 'from' in body ? body.from : '-', 'to' in body ? body.to : '-'].join(' '),
  )

function show(store: Store, id: VmId, state: ObservedState): void {
  store.vms.recordProgress(id, { observed: { state, sinceMs: 2 }, nowMs: 2 })
}

test('the events of a VM are on record with its changes, and the next process finds them', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  show(stage.store, id, 'starting')
  show(stage.store, id, 'running')
  stage.reopen()
  stage.removeVm(id, 3)
  assert.deepEqual(words(stage.store), [
    'vm_created - pending',
    'vm_state pending starting',
    'vm_state starting running',
    'vm_requested - -',
    'vm_deleted running -',
  ])
  const numbers = all(stage.store).map(({ sequence }) => sequence)
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => a - b),
  )
  assert.equal(new Set(numbers).size, numbers.length)
})

test('a change that is rolled back has no event, and neither has a dry run', (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  const heard: number[] = []
  store.events.onAppend(() => heard.push(all(store).length))
  const id = stage.insertVm('web-1', image)
  const remove = () =>
    store.vms.changeDesired(id, { deleting: true, operationId: 'op-2' as OperationId, nowMs: 2 })
  store.rehearse(remove)
  const failed = new Error('failed')
  assert.throws(
    () =>
      store.transaction(() => {
        remove()
        throw failed
      }),
    failed,
  )
  assert.deepEqual(words(store), ['vm_created - pending'])
  remove()
  assert.deepEqual(heard, [1, 2], 'readers hear of what is committed')
})

test('the numbers of a dry run lack nothing after an orderly end, and may lack something after a crash', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-1', image)
  const rehearse = (): number => {
    stage.store.rehearse(() => stage.store.events.append(1, [refusal()]))
    return stage.store.events.newest
  }
  const known = rehearse()
  stage.reopen()
  assert.equal(lacksChanges(stage.store.events, known), false)
  const later = rehearse()
  stage.crash()
  assert.deepEqual(
    [known, later].map((number) => lacksChanges(stage.store.events, number)),
    [false, true],
  )
})

test('a store that is opened and closed in between does not hide what a crash may have lost', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-1', image)
  const known = stage.store.events.newest + 1
  stage.crash()
  stage.reopen()
  assert.equal(lacksChanges(stage.store.events, known), true)
})

test('a snapshot has events, also when it is removed', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertSnapshot('nightly')
  stage.store.snapshots.advance(id, { stage: 'packing', nowMs: 2 })
  stage.store.snapshots.touch(id, 3)
  stage.store.snapshots.remove(id, 4)
  assert.deepEqual(words(stage.store), [
    'snapshot_created - pending',
    'snapshot_state pending uploading',
    'snapshot_deleted uploading -',
  ])
})

test('progress that cannot be written has its events when it is written, each of them', async (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  const id = stage.insertVm('web-1', image)
  const unlock = lockStore(stage.directory)
  for (const state of ['starting', 'running', 'stopping'] as const) show(store, id, state)
  assert.equal(store.vms.get(id)?.observed.state, 'stopping')
  assert.deepEqual(words(store), ['vm_created - pending'])
  await unlock()
  show(store, id, 'stopped')
  assert.deepEqual(words(store), [
    'vm_created - pending',
    'vm_state pending starting',
    'vm_state starting running',
    'vm_state running stopping',
    'vm_state stopping stopped',
  ])
})

test('passes without events push no event out while nothing can be written', async (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  const id = stage.insertVm('web-1', image)
  const unlock = lockStore(stage.directory)
  for (const state of ['starting', 'running'] as const) show(store, id, state)
  for (let pass = 0; pass < limits.unwrittenEventsMax; pass += 1) show(store, id, 'running')
  await unlock()
  show(store, id, 'stopping')
  assert.deepEqual(words(store).slice(1), [
    'vm_state pending starting',
    'vm_state starting running',
    'vm_state running stopping',
  ])
  assert.equal(store.events.keptAfter, 0)
})

test('readers are informed if more events happened than wait while nothing can be written', async (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  const id = stage.insertVm('web-1', image)
  const unlock = lockStore(stage.directory)
  for (let pass = 0; pass <= limits.unwrittenEventsMax; pass += 1)
    show(store, id, pass % 2 ? 'running' : 'starting')
  const { newest } = store.events
  const heard: number[] = []
  store.events.onAppend(() => heard.push(store.events.keptAfter))
  assert.ok(!lacksEvents(store.events, newest))
  await unlock()
  show(store, id, 'stopped')
  assert.ok(lacksEvents(store.events, newest))
  assert.ok((heard[0] ?? 0) > newest)
  assert.equal(words(store).at(-1), 'vm_state starting stopped')
  assert.ok(
    store.events.list({ after: store.events.keptAfter, limit: 100_000 }).length >
      limits.unwrittenEventsMax / 2,
  )
})

test('no list of events reads events that it does not want', (t) => {
  const stage = new StoreStage(t)
  const db = new DatabaseSync(`${stage.directory}/vmhostd.db`, { readOnly: true })
  t.after(() => db.close())
  const planOf = (query: Partial<EventQuery>): string => {
    const sql = selectEvents({ after: 0, limit: 10, ...query })
    return db
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all()
      .map(({ detail }) => String(detail))
      .join()
  }
  const vmId = 'web-1' as VmId
  assert.match(planOf({}), /^SEARCH events USING INTEGER PRIMARY KEY \(rowid>\?\)$/)
  assert.match(planOf({ vmId }), /^SEARCH events USING INDEX events_by_vm /)
  assert.match(
    planOf({ vmId, kind: 'admission_refused', sinceMs: 1 }),
    /^SEARCH events USING INDEX events_by_vm /,
  )
  assert.match(planOf({ kind: 'vm_deleted' }), /^SEARCH events USING INDEX events_of_deletions /)
})

test('events are listed after a number, of one VM, of one kind', (t) => {
  const stage = new StoreStage(t)
  const { events } = stage.store
  events.add(1, refusal('web-1'), refusal('web-2'), refusal('web-1'))
  const listed = all(stage.store)
  const after = listed[0]?.sequence ?? assert.fail()
  assert.deepEqual(events.list({ after, limit: 10 }), listed.slice(1))
  assert.deepEqual(events.list({ after: 0, limit: 10, vmId: 'web-1' as VmId }), [listed[0], listed[2]])
  assert.deepEqual(events.list({ after: 0, limit: 2 }), listed.slice(0, 2))
  assert.deepEqual(events.list({ after: 0, limit: 10, kind: 'vm_state' }), [])
  assert.deepEqual(events.list({ after: 0, limit: 10, kind: 'admission_refused', sinceMs: 1 }), listed)
  assert.deepEqual(events.list({ after: 0, limit: 10, kind: 'admission_refused', sinceMs: 2 }), [])
  assert.equal(events.newest, listed[2]?.sequence)
})

test('the oldest events beyond the bound are removed, and where the kept ones begin is known to the next process', (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  store.events.add(1, refusal())
  assert.equal(store.events.keptAfter, 0)
  const [first] = all(store)
  const many = Array.from({ length: limits.eventsMax + 2 * limits.eventsPruneEvery }, () => refusal())
  store.events.add(2, ...many)
  const kept = all(store)
  assert.equal(kept.length, limits.eventsMax)
  assert.ok(store.events.keptAfter > (first?.sequence ?? 0))
  assert.equal(store.events.keptAfter, (kept[0]?.sequence ?? 0) - 1)
  const { keptAfter } = store.events
  stage.reopen()
  assert.equal(stage.store.events.keptAfter, keptAfter)
  assert.ok(stage.store.events.newest >= (kept.at(-1)?.sequence ?? 0))
})

test('events that are too old are removed, and at most one row of removals behind', (t) => {
  const stage = new StoreStage(t)
  const { events } = stage.store
  events.add(1, refusal('old'))
  const many = Array.from({ length: limits.eventsKeptMin }, () => refusal('young'))
  events.add(limits.eventsAgeMsMax + 2, ...many)
  const names = new Set(all(stage.store).map(({ body }) => vmOfEvent(body)))
  assert.deepEqual([...names], ['young'])
  assert.equal(events.keptAfter, 1)
})

test('a clock that was set ahead for a while removes no event', (t) => {
  const stage = new StoreStage(t)
  const { events } = stage.store
  events.add(1, refusal('early'), refusal('early'))
  const ahead = Array.from({ length: limits.eventsPruneEvery }, () => refusal('ahead'))
  events.add(limits.eventsAgeMsMax * 100, ...ahead)
  stage.reopen()
  stage.store.events.add(limits.eventsAgeMsMax * 100, refusal('ahead'))
  stage.store.events.add(2, ...ahead)
  assert.equal(all(stage.store).filter(({ body }) => vmOfEvent(body) === 'early').length, 2)
  assert.equal(stage.store.events.keptAfter, 0)
})

test('readers of events wait until the events of passes are on the disk, and passes do not', async (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  const id = stage.insertVm('web-1', image)
  await store.flushed()
  show(store, id, 'starting')
  const order: string[] = []
  const read = store.flushedAll().then(() => order.push('events'))
  const passed = store.flushed().then(() => order.push('pass'))
  await Promise.all([read, passed])
  assert.deepEqual(order, ['pass', 'events'])
})
