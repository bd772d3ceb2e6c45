import type { SnapshotRecord } from '../../core/snapshot/record.ts'
import type { LogContext } from '../../log/log-context.ts'

/** What each line about a snapshot has; the operation is that of its newest request. */
export const fieldsOf = ({
  id,
  vmId,
  operationId,
}: Pick<SnapshotRecord, 'id' | 'vmId' | 'operationId'>): LogContext => ({
  snapshot_id: id,
  vm_id: vmId,
  operation_id: operationId,
})
