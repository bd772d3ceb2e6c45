import assert from 'node:assert/strict'
import { test } from 'node:test'
import { statusOf } from './record.ts'
import type { SnapshotStage } from './record.ts'

test('a snapshot is pending until it is captured, and uploading until it has ended', () => {
  const stages: SnapshotStage[] = [
    'waiting',
    'capturing',
    'packing',
    'sending',
    'completing',
    'completed',
    'failed',
  ]
  assert.deepEqual(
    stages.map((stage) => statusOf({ stage })),
    ['pending', 'pending', 'uploading', 'uploading', 'uploading', 'completed', 'failed'],
  )
  assert.throws(() => statusOf({ stage: 'other' as SnapshotStage }), /unhandled case/)
})
