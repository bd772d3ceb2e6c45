import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SNAPSHOT_STAGES, statusOf } from './record.ts'
import type { SnapshotStage } from './record.ts'

test('a snapshot is pending until it is captured, and uploading until it has ended', () => {
  assert.deepEqual(
    SNAPSHOT_STAGES.map((stage) => statusOf({ stage })),
    ['pending', 'pending', 'uploading', 'uploading', 'uploading', 'completed', 'failed'],
  )
  assert.throws(() => statusOf({ stage: 'other' as SnapshotStage }), /unhandled case/)
})
