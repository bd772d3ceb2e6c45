import { err, ok } from '../../lib/result.ts'
import type { Rejection } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { Store } from '../../store/store.ts'

/** Returns the record that a mutation is about, or why there is none. */
export function existingVm(store: Store, id: VmId): Result<VmRecord, Rejection> {
  const record = store.vms.get(id)
  return record === undefined
    ? err({ code: 'not_found', detail: `there is no VM ${id} on this host` })
    : ok(record)
}
