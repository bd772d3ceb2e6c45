import { limits } from '../../config/limits.ts'
import { StateUnwritable } from '../../store/database/transactions.ts'
import type { CommandContext, Refusal } from '../context.ts'
import type { VmId } from '../../core/ids.ts'

/** Refusals because the host has no room, or takes nothing more. */
const WITHOUT_ROOM: readonly Refusal['code'][] = [
  'insufficient_capacity',
  'console_places_exhausted',
  'user_ids_exhausted',
  'host_cordoned',
]

/**
 * Makes an event of a refusal because the host has no room or is cordoned. The same refusal of the same VM is one event
 * for a while, because a controller may try again without end.
 */
export function noteRefusal({ store, now }: CommandContext, vmId: VmId, { code, ...refusal }: Refusal): void {
  if (!WITHOUT_ROOM.includes(code)) return
  const nowMs = now()
  const earlier = store.events.list({
    after: 0,
    limit: limits.eventsMax,
    vmId,
    kind: 'admission_refused',
    sinceMs: nowMs - limits.refusalEventEveryMs,
  })
  const isKnown = earlier.some(
    ({ atMs, body }) =>
      body.kind === 'admission_refused' &&
      body.code === code &&
      Math.abs(nowMs - atMs) < limits.refusalEventEveryMs,
  )
  if (isKnown) return
  const detail = 'detail' in refusal ? refusal.detail : refusal.message
  try {
    store.events.add(nowMs, { kind: 'admission_refused', vmId, code, detail })
  } catch (error) {
    // The refusal itself needs no write.
    if (!(error instanceof StateUnwritable)) throw error
  }
}
