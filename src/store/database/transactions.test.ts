import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { lockStore } from '../../../test/locked-store.ts'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import type { TestContext } from 'node:test'
import { limits } from '../../config/limits.ts'
import type { OperationId, VmId } from '../../core/ids.ts'
import type { Launch } from '../../core/vm/record.ts'
import { StateUnwritable, unwritableOr } from './transactions.ts'
import { UnwrittenProgress } from '../vm/vm-row.ts'
import type { ProgressColumns } from '../vm/vm-row.ts'

function stage(t: TestContext) {
  const on = new StoreStage(t)
  const id = on.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  const vm = () => on.store.vms.get(id) ?? assert.fail('the VM is gone')
  const change = (power: 'stopped' | 'running' = 'stopped') =>
    on.store.vms.changeDesired(id, {
      desired: { ...vm().desired, power },
      operationId: 'op-2' as OperationId,
      nowMs: 2000,
    })
  const launch: Launch = { bootId: 'boot', atMs: 5, compute: vm().desired.compute }
  const progress = () =>
    on.store.vms.recordProgress(id, {
      observed: { state: 'running', sinceMs: 3000 },
      observedGeneration: vm().generations.desired,
      launch,
      nowMs: 3000,
    })
  return { on, id, vm, change, progress, launch }
}

test('a change of a locked database is refused with its reason, stores nothing, and works when it is free', async (t) => {
  const { on, vm, change } = stage(t)
  const before = vm()
  const free = lockStore(on.directory)
  assert.throws(change, (error) => error instanceof StateUnwritable && /locked/.test(String(error.cause)))
  assert.throws(() => on.store.rehearse(change), StateUnwritable)
  assert.deepEqual(vm(), before)
  await free()
  assert.equal(change().desired.power, 'stopped')
})

test('progress that cannot be written is shown everywhere, and written with the next write of anything', async (t) => {
  const { on, id, vm, progress, launch } = stage(t)
  const other = on.insertVm('web-2', vm().desired.image)
  const before = vm()
  const free = lockStore(on.directory)
  progress()
  const shown = vm()
  assert.deepEqual([shown.observed.state, shown.launch], ['running', launch])
  assert.ok(shown.revision > before.revision)
  assert.deepEqual(shown.generations, { desired: 1, observed: 0 }, 'the generation is not promised')
  const listed = (state: 'running' | 'pending') =>
    on.store.vms.list({ limit: 1, state }).map((each) => each.id)
  assert.deepEqual([listed('running'), listed('pending')], [[id], [other]])
  assert.deepEqual(
    on.store.vms.summaries({}).map(({ state }) => state),
    ['running', 'pending'],
  )
  assert.deepEqual(
    on.store.vms.summaries({ state: 'pending', limit: 1 }).map((each) => each.id),
    [other],
  )
  await free()
  on.store.vms.changeMetadata(other, { labels: {}, protected: true }, 4000)
  on.reopen()
  assert.deepEqual(vm(), shown)
  progress()
  assert.equal(vm().generations.observed, 1)
})

test('progress that shows nothing new is written all the same once it can be', async (t) => {
  const { on, progress, vm } = stage(t)
  const free = lockStore(on.directory)
  progress()
  await free()
  progress()
  on.reopen()
  assert.deepEqual([vm().observed.state, vm().generations.observed], ['running', 1])
})

test('that a guest may be saved is never kept in memory alone', (t) => {
  const { on, id, vm } = stage(t)
  const free = lockStore(on.directory)
  t.after(free)
  const note = (): unknown =>
    on.store.vms.recordProgress(id, { observed: vm().observed, mayBeSaved: true, nowMs: 1 })
  assert.throws(note, StateUnwritable)
  assert.equal(vm().mayBeSaved, undefined)
})

test('that a stop is carried out is kept in memory until a start may follow it', async (t) => {
  const { on, id, vm, change } = stage(t)
  const carryOut = (): unknown =>
    on.store.vms.recordProgress(id, {
      observed: vm().observed,
      stopCarriedOut: vm().stops.accepted,
      nowMs: 1,
    })
  const { generations } = change()
  const free = lockStore(on.directory)
  carryOut()
  assert.equal(vm().stops.carriedOut, generations.desired)
  await free()
  change('running')
  change('stopped')
  change('running')
  t.after(lockStore(on.directory))
  assert.throws(carryOut, StateUnwritable)
  assert.equal(vm().stops.carriedOut, generations.desired)
})

test('a locked database can be opened and read; without a reserved revision nothing new is shown', (t) => {
  const { on, vm, progress, launch } = stage(t)
  const before = vm()
  let free = async (): Promise<void> => {}
  on.reopen(() => {
    free = lockStore(on.directory)
  })
  t.after(() => free())
  assert.deepEqual(vm(), before)
  progress()
  assert.deepEqual(vm(), { ...before, launch })
})

test('many writes to a locked database hold the event loop up no longer than a few', (t) => {
  const { on, change, progress } = stage(t)
  t.after(lockStore(on.directory))
  const beganAt = performance.now()
  let tries = 0
  for (; tries < 1000; tries += 1) {
    progress()
    assert.throws(change, StateUnwritable)
  }
  const longest = ((performance.now() - beganAt) / limits.stateRetryMs + 1) * 2 * limits.databaseBusyMs
  assert.ok(performance.now() - beganAt < tries * limits.databaseBusyMs, `longer than ${longest} ms`)
})

test('progress that finds the disk full is kept until there is room; no failure leaves a transaction open', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'full-store-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const db = new DatabaseSync(join(directory, 'full.db'))
  t.after(() => db.close())
  const columns = {
    ...{ observed: 'x'.repeat(64 * 1024), state: 'running', launch: null, wake: null },
    ...{
      may_be_saved: 0,
      stop_carried_out: 0,
      stop_grace: null,
      exit_streak: 0,
      revision: 1,
      updated_at_ms: 1,
    },
  } as unknown as ProgressColumns
  db.exec(
    `CREATE TABLE vms (id TEXT, memory_lent, memory_wanted_at_ms, ${Object.keys(columns).join(', ')});
     INSERT INTO vms (id, memory_lent, memory_wanted_at_ms) VALUES ('web-1', 1, 5)`,
  )
  const { page_count: pages } = db.prepare('PRAGMA page_count').get() as { page_count: number }
  db.exec(`PRAGMA max_page_count = ${pages}`)
  const appended: number[] = []
  const unwritten = new UnwrittenProgress(db, {
    append: ({ atMs }) => appended.push(atMs),
    noteGap: () => assert.fail('nothing was dropped'),
  })
  const vmId = 'web-1' as VmId
  const body = { kind: 'admission_refused', vmId, code: 'insufficient_capacity', detail: '' } as const
  unwritten.keep(vmId, columns, { atMs: 1, bodies: [body] })
  unwritten.keep(vmId, columns, { atMs: 2, bodies: [body] })
  unwritten.keepLoanEnd(vmId)
  assert.throws(
    () => unwritten.write(),
    (error) => {
      const fault = unwritableOr(error)
      return fault instanceof StateUnwritable && /the disk is full/.test(String(fault.cause))
    },
  )
  assert.deepEqual([unwritten.isEmpty, db.isTransaction], [false, false])
  db.exec(`PRAGMA max_page_count = ${pages + 100}`)
  unwritten.write()
  assert.ok(unwritten.isEmpty)
  assert.deepEqual(
    { ...db.prepare('SELECT state, memory_lent, memory_wanted_at_ms FROM vms').get() },
    { state: 'running', memory_lent: 0, memory_wanted_at_ms: null },
  )
  assert.deepEqual(appended, [1, 2], 'the events of all progress are written once, in order')
  db.exec('CREATE UNIQUE INDEX one ON vms (revision)')
  db.exec("INSERT INTO vms (id, revision) VALUES ('web-2', 2)")
  unwritten.keep('web-1', { ...columns, revision: 2 }, { atMs: 3, bodies: [] })
  assert.throws(() => unwritten.write(), /UNIQUE/)
  assert.equal(db.isTransaction, false)
})

test('an error that is not about writing passes as it is', () => {
  const bug = new TypeError('a bug')
  assert.equal(unwritableOr(bug), bug)
  const constraint = Object.assign(new Error('UNIQUE'), { code: 'ERR_SQLITE_ERROR', errcode: 2067 })
  assert.equal(unwritableOr(constraint), constraint)
})

test('a failing disk is one that cannot be written, however closely SQLite says what failed', () => {
  // SQLITE_IOERR_FSYNC, and SQLITE_BUSY_SNAPSHOT.
  for (const errcode of [1034, 517]) {
    const error = Object.assign(new Error('closer'), { code: 'ERR_SQLITE_ERROR', errcode })
    assert.ok(unwritableOr(error) instanceof StateUnwritable)
  }
})
