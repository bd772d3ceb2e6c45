import assert from 'node:assert/strict'
import { test } from 'node:test'
import { snapshotEvents } from './snapshot-events.ts'
import type { OperationId, VmId } from '../ids.ts'
import type { SnapshotId, SnapshotStage, Trouble } from '../snapshots/record.ts'

const of = { snapshotId: 'nightly', vmId: 'web-1', operationId: 'op-1' }

const at = (stage: SnapshotStage, trouble?: Trouble) => ({
  id: 'nightly' as SnapshotId,
  vmId: 'web-1' as VmId,
  operationId: 'op-1' as OperationId,
  stage,
  ...(trouble === undefined ? {} : { trouble }),
})

test('a snapshot has an event for each status, and none for a stage within one', () => {
  assert.deepEqual(snapshotEvents(undefined, at('waiting')), [
    { ...of, kind: 'snapshot_created', to: 'pending' },
  ])
  assert.deepEqual(snapshotEvents(at('waiting'), at('capturing')), [])
  assert.deepEqual(snapshotEvents(at('capturing'), at('packing')), [
    { ...of, kind: 'snapshot_state', from: 'pending', to: 'uploading' },
  ])
  assert.deepEqual(snapshotEvents(at('completed'), undefined), [
    { ...of, kind: 'snapshot_deleted', from: 'completed' },
  ])
})

test('a failure says why, and trouble on the way makes no event', () => {
  const trouble: Trouble = { code: 'snapshot_unsupported', message: 'refused', sinceMs: 1, attempt: 1 }
  assert.deepEqual(snapshotEvents(at('sending'), at('sending', trouble)), [])
  assert.deepEqual(snapshotEvents(at('sending'), at('failed', trouble)), [
    {
      ...of,
      kind: 'snapshot_state',
      from: 'uploading',
      to: 'failed',
      code: 'snapshot_unsupported',
      detail: 'refused',
    },
  ])
})
