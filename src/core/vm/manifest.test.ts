import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf } from '../../../test/record.ts'
import { manifestOf } from './manifest.ts'
import type { Departure } from '../migration/departure.ts'
import type { MigrationId, NodeName } from '../migration/offer.ts'

const departure: Departure = {
  id: 'move-7' as MigrationId,
  node: 'node-2' as NodeName,
  mode: 'cold',
  stage: 'withdrawn',
  sinceMs: 1,
}
const monitor = {
  program: 'qemu-system-x86_64',
  version: '10.0.2',
  accelerator: 'tcg',
  form: 'mapped',
} as const
const savedState = { savedAtMs: 1, sizeMib: 10, memoryMib: 256 }

test('a manifest outlives the offer that a request withdrew', () => {
  const { stage, mode, expiresAtMs } = manifestOf(recordOf(), departure, monitor)
  assert.deepEqual([stage, mode, expiresAtMs], ['withdrawn', 'cold', undefined])
})

for (const [power, isSaved, shown] of [
  ['running', false, 'running'],
  ['running', true, 'sleeping'],
  ['paused', false, 'paused'],
  ['stopped', false, 'stopped'],
] as const) {
  test(`a VM of desired power ${power}, ${isSaved ? 'saved' : 'not saved'}, is ${shown} in its manifest`, () => {
    const record = recordOf()
    const observed = { ...record.observed, ...(isSaved ? { savedState } : {}) }
    const seen = { ...record, desired: { ...record.desired, power }, observed }
    assert.equal(manifestOf(seen, departure, monitor).power, shown)
  })
}
