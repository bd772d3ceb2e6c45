import { given } from '../../lib/given.ts'
import { statusOf } from '../snapshots/record.ts'
import type { SnapshotRecord } from '../snapshots/record.ts'
import type { SnapshotEvent } from './event.ts'

type Compared = Pick<SnapshotRecord, 'id' | 'vmId' | 'operationId' | 'stage' | 'trouble'>

/** Returns what happened between two states of a snapshot; see `vmEvents`. */
export function snapshotEvents(
  before: Compared | undefined,
  after: Compared | undefined,
): readonly SnapshotEvent[] {
  const record = after ?? before
  if (record === undefined) return []
  const of = { snapshotId: record.id, vmId: record.vmId, operationId: record.operationId }
  const from = before && statusOf(before)
  const to = after && statusOf(after)
  if (from === undefined) return to === undefined ? [] : [{ ...of, kind: 'snapshot_created', to }]
  if (to === undefined) return [{ ...of, kind: 'snapshot_deleted', from }]
  if (from === to) return []
  const trouble = to === 'failed' ? after?.trouble : undefined
  const why = given({ code: trouble?.code, detail: trouble?.message })
  return [{ ...of, kind: 'snapshot_state', from, to, ...why }]
}
