import { limits } from '../../config/limits.ts'
import { idleTimeoutMs } from '../../core/sleep/idle-timeout.ts'
import { refuseWhileMoving } from '../../core/vm/leaving.ts'
import { mustEnd } from '../../core/vm/record.ts'
import { err, ok } from '../../lib/result.ts'
import { changeVm } from './store-desired.ts'
import type { Rejection } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { ObservedState, VmRecord, WakeReason } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Keeps the guest awake until a time, and wakes it if it sleeps; `undefined` lets it sleep as its timeout says. Desired
 * state stays, so no generation rises.
 */
export function keepAwake(context: CommandContext, id: VmId, untilMs: number | undefined): CommandResult {
  const { store, newOperationId } = context
  return changeVm(context, { id, reason: 'keep awake' }, (before) => {
    if (before.keepAwakeUntilMs === untilMs) return ok({ record: before, changed: false })
    const nowMs = context.now()
    // The destination has read the time already.
    const refusal = refuseWhileMoving(before) ?? refuseTime(untilMs, nowMs)
    if (refusal !== undefined) return err(refusal)
    const operationId = newOperationId()
    store.vms.keepAwake(id, untilMs, { operationId, nowMs })
    if (untilMs !== undefined) requestWake(context, id, 'keep_awake')
    const record = store.vms.get(id) ?? before
    return ok({ record, changed: true, operationId })
  })
}

function refuseTime(untilMs: number | undefined, nowMs: number): Rejection | undefined {
  const leftMs = (untilMs ?? nowMs + 1) - nowMs
  if (leftMs > 0 && leftMs <= limits.keepAwakeMsMax) return undefined
  const [first, last] = [nowMs, nowMs + limits.keepAwakeMsMax].map((ms) => new Date(ms).toISOString())
  const detail = `until must be after ${first} and not after ${last}, by the clock of this host`
  return { code: 'invalid_request', detail, errors: [{ pointer: '/until', code: 'out_of_range', detail }] }
}

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
