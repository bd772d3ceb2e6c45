import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreStage } from '../../../test/store-stage.ts'
import { SCHEDULABLE } from '../../core/maintenance/maintenance.ts'

test('a new store has a schedulable host, and what is set outlives the process', (t) => {
  const stage = new StoreStage(t)
  assert.deepEqual(stage.store.maintenance.get(), SCHEDULABLE)
  const cordoned = { state: 'cordoned', reason: 'new kernel', sinceMs: 5 } as const
  stage.store.maintenance.set(cordoned, 5)
  stage.reopen()
  assert.deepEqual(stage.store.maintenance.get(), cordoned)
})

test('a change that is rolled back leaves no event', (t) => {
  const { store } = new StoreStage(t)
  store.rehearse(() => store.maintenance.set({ state: 'cordoned', sinceMs: 5 }, 5))
  assert.deepEqual(store.maintenance.get(), SCHEDULABLE)
  assert.deepEqual(store.events.list({ after: 0, limit: 9 }), [])
})
