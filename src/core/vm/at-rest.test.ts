import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf } from '../../../test/record.ts'
import { handoverReadiness, mayBeInPool } from './at-rest.ts'
import type { SavedState } from '../world/saved-state.ts'
import type { UnitState } from '../world/world.ts'

const SAVED = {
  present: { kind: 'present', savedAtMs: 1, sizeMib: 10, memoryMib: 256, vcpus: 1, form: 'mapped' },
  unusable: { kind: 'unusable', code: 'saved_state_corrupt', because: 'it is damaged' },
  absent: { kind: 'absent' },
  unfinished: { kind: 'unfinished' },
} as const satisfies Record<SavedState['kind'], SavedState>

const results = (departure: Parameters<typeof handoverReadiness>[0]): string[] =>
  Object.values(SAVED).map((saved) => handoverReadiness(departure, { kind: 'absent' }, saved))

test('a guest that moves with its memory is at rest when it is saved, and lost without a usable state', () => {
  for (const lived of ['running', 'sleeping', 'paused'] as const)
    assert.deepEqual(results({ mode: 'live', lived }), ['ready', 'lost', 'lost', 'lost'])
})

test('a guest that moves without memory is at rest when nothing is saved', () => {
  for (const departure of [
    { mode: 'cold', lived: 'running' },
    { mode: 'live', lived: 'stopped' },
  ] as const)
    assert.deepEqual(results(departure), ['not_yet', 'not_yet', 'ready', 'ready'])
})

test('no guest is at rest while a process of it may be left', () => {
  const units: readonly UnitState[] = [
    { kind: 'active', mainPid: 1, startedAtMs: 1, mark: { storeId: 's', createdAtMs: 1 } },
    { kind: 'failed', result: 'signal', status: 9 },
    { kind: 'leftover', pids: [1] },
    { kind: 'deactivating' },
  ]
  for (const unit of units)
    for (const mode of ['live', 'cold'] as const)
      for (const saved of Object.values(SAVED))
        assert.equal(handoverReadiness({ mode, lived: 'running' }, unit, saved), 'not_yet')
})

test('a guest may be in the pool as the look shows, and as the record says while the pool cannot be seen', () => {
  const unseen = { known: false, code: 'storage_inspection_failed', retry: 'backoff', message: '' } as const
  const noted = recordOf({ mayBeSaved: true })
  const of = (saved: SavedState): boolean => mayBeInPool(noted, { saved: { known: true, value: saved } })
  assert.deepEqual(Object.values(SAVED).map(of), [true, true, false, false])
  assert.equal(mayBeInPool(noted, { saved: unseen }), true)
  assert.equal(mayBeInPool(recordOf(), { saved: unseen }), false)
})
