import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { recordOf } from '../../../test/record.ts'
import { deadlineMsOf } from './steps.ts'

test('a restore has time for all of the memory that was saved', () => {
  const restore = { kind: 'monitor.ensure-restored', because: 'packets came' } as const
  const deadlineOf = (sizeMib: number): number => {
    const savedState = { savedAtMs: 1, sizeMib, memoryMib: sizeMib }
    return deadlineMsOf(restore, recordOf({ observed: { state: 'sleeping', sinceMs: 1, savedState } }))
  }
  const gib = 1024
  // The memory is read twice, at 10 MiB/s, the rate for which the time of a save is set.
  assert.ok(deadlineOf(64 * gib) >= (2 * 64 * gib * 1000) / 10)
  assert.ok(deadlineOf(1) < limits.restoreMs + 1000)
  const unknown = deadlineMsOf(restore, recordOf())
  assert.equal(unknown, limits.restoreMs + 256 * limits.restoreMsPerMib)
})
