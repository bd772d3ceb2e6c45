import { assert } from '../../lib/assert.ts'
import type { Desired } from '../../core/desired.ts'
import type { PendingWake, Launch, Observed, VmRecord } from '../../core/vm/record.ts'
import type { DeviceName, Generation, OperationId, UserId, VmId } from '../../core/ids.ts'

/** A row of `vms` as SQLite gives it. */
export type VmRow = {
  id: string
  user_id: number
  device: string
  desired: string
  labels: string
  protected: number
  deleting: number
  desired_generation: number
  observed_generation: number
  power_generation: number
  stop_accepted: number
  stop_carried_out: number
  operation_id: string
  state: string
  observed: string
  launch: string | null
  wake: string | null
  may_be_saved: number
  exit_streak: number
  revision: number
  created_at_ms: number
  updated_at_ms: number
}

export function recordOf(row: VmRow): VmRecord {
  assert(
    row.observed_generation <= row.desired_generation,
    `${row.id}: observed generation is ahead of desired`,
  )
  return {
    id: row.id as VmId,
    host: { userId: row.user_id as UserId, device: row.device as DeviceName },
    desired: JSON.parse(row.desired) as Desired,
    metadata: {
      labels: JSON.parse(row.labels) as Record<string, string>,
      protected: row.protected === 1,
    },
    deleting: row.deleting === 1,
    generations: {
      desired: row.desired_generation as Generation,
      observed: row.observed_generation as Generation,
    },
    powerGeneration: row.power_generation as Generation,
    stops: { accepted: row.stop_accepted, carriedOut: row.stop_carried_out },
    operationId: row.operation_id as OperationId,
    observed: JSON.parse(row.observed) as Observed,
    ...(row.launch === null ? {} : { launch: JSON.parse(row.launch) as Launch }),
    ...(row.wake === null ? {} : { wake: JSON.parse(row.wake) as PendingWake }),
    ...(row.may_be_saved === 1 ? { mayBeSaved: true } : {}),
    exitStreak: row.exit_streak,
    revision: row.revision,
    createdAtMs: row.created_at_ms,
    updatedAtMs: row.updated_at_ms,
  }
}
