import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lockStore } from '../../test/locked-store.ts'
import { StoreStage, sha256Of } from '../../test/store-stage.ts'
import type { TestContext } from 'node:test'
import { limits } from '../config/limits.ts'
import type { OperationId } from '../core/vm/ids.ts'
import type { Launch } from '../core/vm/record.ts'
import { StateUnwritable } from './state-unwritable.ts'

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
    on.store.summaries().map(({ state }) => state),
    ['running', 'pending'],
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
