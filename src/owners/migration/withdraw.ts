import { withoutOffer } from '../../core/vm/leaving.ts'
import type { VmId } from '../../core/ids.ts'
import type { WithdrawalReason } from '../../core/migration/departure.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { DepartureContext } from './context.ts'

/**
 * Withdraws the offer of a VM for the reason that `why` finds in its record, and requests the guest that was saved for
 * the move. Does nothing without a reason, or if the migration is decided. A release that comes later is refused.
 */
export function withdraw(
  { store, clock, poke, log }: DepartureContext,
  id: VmId,
  why: (record: VmRecord) => WithdrawalReason | undefined,
): void {
  const nowMs = clock.now()
  const withdrawn = store.transaction(() => {
    const record = store.vms.get(id)
    const because = record && why(record)
    if (record === undefined || because === undefined) return undefined
    const { departure, wakes } = withoutOffer(record, because, nowMs)
    if (departure === undefined) return undefined
    store.departures.set(id, departure, nowMs)
    if (wakes) store.vms.requestWake(id, { reason: 'withdrawn', atMs: nowMs })
    return departure
  })
  if (withdrawn === undefined) return
  log.warn({ vm_id: id, migration_id: withdrawn.id, because: withdrawn.because }, 'offer withdrawn')
  poke(id, `offer ${withdrawn.because}`)
}
