import type { SnapshotRecord } from '../../core/snapshots/record.ts'
import type { LogContext } from '../../log/log-context.ts'

/** Returns the fields of every log line about a snapshot; the operation is that of its newest request. */
export const fieldsOf = ({
  id,
  vmId,
  operationId,
}: Pick<SnapshotRecord, 'id' | 'vmId' | 'operationId'>): LogContext => ({
  snapshot_id: id,
  vm_id: vmId,
  operation_id: operationId,
})
