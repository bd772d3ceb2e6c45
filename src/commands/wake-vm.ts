import { idleTimeoutMs } from '../core/idle/idle-timeout.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { ObservedState, VmRecord } from '../core/vm/record.ts'
import type { WakeReason } from '../core/vm/wake.ts'
import type { CommandContext } from './context.ts'

/**
 * Asks for the guest of a VM that sleeps, or is about to: that is stored, raises no generation, and makes one wake with
 * whatever else asks for it. Elsewhere it does nothing.
 */
export function wakeVm(context: CommandContext, id: VmId, reason: WakeReason): void {
  const { store } = context
  const asked = store.transaction(() => {
    const record = store.vms.get(id)
    if (record === undefined || !mayBeAway(record)) return false
    store.vms.requestWake(id, { reason, atMs: context.now() })
    return true
  })
  if (asked) context.poke(id, `wake for ${reason}`)
}

/** Also of one that was seen running: its guest may be on its way to sleep since. */
function mayBeAway(record: VmRecord): boolean {
  const { deleting, desired, observed } = record
  if (deleting || desired.power === 'stopped' || observed.state === 'stopped') return false
  return (
    observed.savedState !== undefined || (seenThere(observed.state) && idleTimeoutMs(record) !== undefined)
  )
}

const seenThere = (state: ObservedState): boolean =>
  state === 'running' || state === 'sleeping' || state === 'waking'
