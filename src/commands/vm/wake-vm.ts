import { mustEnd } from '../../core/vm/record.ts'
import { idleTimeoutMs } from '../../core/sleep/idle-timeout.ts'
import type { VmId } from '../../core/ids.ts'
import type { ObservedState, VmRecord, WakeReason } from '../../core/vm/record.ts'
import type { CommandContext } from '../context.ts'

/**
 * Requests the guest of a VM that sleeps, or is about to. The request is stored, raises no generation, and makes one
 * wake together with other requests for the guest. It does nothing for any other VM.
 */
export function wakeVm(context: CommandContext, id: VmId, reason: WakeReason): void {
  if (requestWake(context, id, reason)) context.poke(id, `wake for ${reason}`)
}

/**
 * Does the same as {@link wakeVm}, for a caller that pokes the worker itself. Returns false when nothing was stored.
 */
export function requestWake({ store, now }: CommandContext, id: VmId, reason: WakeReason): boolean {
  return store.transaction(() => {
    const record = store.vms.get(id)
    if (record === undefined || !mayBeAway(record)) return false
    store.vms.requestWake(id, { reason, atMs: now() })
    return true
  })
}

/**
 * Returns whether the guest was last seen asleep or waking. A guest that is saved, and that a fault keeps from waking,
 * counts too.
 */
export const isSeenAway = ({ observed: { state, savedState } }: VmRecord): boolean =>
  state === 'sleeping' || state === 'waking' || savedState !== undefined

/**
 * Returns whether the guest may be asleep. A guest that was seen running counts too, because it may be falling asleep.
 */
function mayBeAway(record: VmRecord): boolean {
  const { observed } = record
  if (mustEnd(record) || observed.state === 'stopped') return false
  return (
    observed.savedState !== undefined || (seenThere(observed.state) && idleTimeoutMs(record) !== undefined)
  )
}

const seenThere = (state: ObservedState): boolean =>
  state === 'running' || state === 'sleeping' || state === 'waking'
