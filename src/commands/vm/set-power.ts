import { limits } from '../../config/limits.ts'
import { err, ok } from '../../lib/result.ts'
import { isNewStop, stopOf } from '../../core/vm/stop.ts'
import { changeableVm, storeDesired } from './store-desired.ts'
import type { Stop, StopTerms } from '../../core/vm/stop.ts'
import type { DesiredPower } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord, ObservedState, WakeReason } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'
import type { Rejection } from '../../core/errors.ts'
import { refuseWhileMoving } from '../../core/vm/leaving.ts'
import { mustEnd, owesStop } from '../../core/vm/record.ts'
import { hasEnded } from '../../core/vm/exit-policy.ts'
import { idleTimeoutMs } from '../../core/sleep/idle-timeout.ts'

/**
 * Stores the desired power state. `stopped` is a hard stop unless the terms give the guest time. `running` for a sleeping guest is a change even if
 * `running` was desired before: its generation is reached when the guest is back. A request for the power that is
 * already desired makes the worker try again at once, if its last attempt failed.
 */
export function setPower(
  context: CommandContext,
  id: VmId,
  power: DesiredPower,
  terms: StopTerms = {},
): CommandResult {
  const result = storeDesired(context, id, {
    reason: `power ${power}`,
    decide: ({ desired }) => ok({ ...desired, power }),
    stops: (before) => (power === 'stopped' ? askedStop(before, terms, context.now()) : undefined),
    setsPowerAnew: (before) => power === 'running' && (asksForWake(before) || hasEnded(before)),
  })
  if (!result.ok) return result
  const { record, changed } = result.value
  // A repeated request after a failure wants an attempt now, not at the end of the back-off.
  if (!changed && record.observed.fault !== undefined) context.poke(id, `power ${power} again`)
  if (power !== 'running') return result
  // A change has already poked the worker. A second poke would cut short the back-off of what the change leads to.
  if (changed) requestWake(context, id, 'power')
  else wakeVm(context, id, 'power')
  // Reads the record as it is now, because a rehearsal plans with it.
  return ok({ ...result.value, record: context.store.vms.get(id) ?? record })
}

/** Returns the stop of a request for `stopped`; undefined if it changes nothing. */
function askedStop(before: VmRecord, terms: StopTerms, nowMs: number): Stop | undefined {
  const stop = stopOf(before, terms, nowMs)
  if (before.desired.power !== 'stopped') return stop
  return owesStop(before) && isNewStop(before, stop) ? stop : undefined
}

/**
 * Ends the guest and starts it again, under one generation. The power stays as it is desired. The same request while a
 * reboot is under way changes nothing, unless it asks for an earlier end.
 */
export function rebootVm(context: CommandContext, id: VmId, terms: StopTerms): CommandResult {
  return storeDesired(context, id, {
    reason: 'reboot',
    decide: ({ desired }) =>
      desired.power === 'stopped'
        ? err({ code: 'vm_stopped', detail: `${id} is to be stopped, and cannot reboot: start it` })
        : ok(desired),
    stops: (before) => {
      const stop = stopOf(before, terms, context.now())
      return isNewStop(before, stop) ? stop : undefined
    },
  })
}

/**
 * Returns whether the request asks for a wake. If the power is not reached yet, it is the same request, and still
 * running.
 */
const asksForWake = (before: VmRecord): boolean =>
  isSeenAway(before) && before.powerGeneration <= before.generations.observed

/**
 * Keeps the guest awake until a time, and wakes it if it sleeps; `undefined` lets it sleep as its timeout says. Desired
 * state stays, so no generation rises.
 */
export function keepAwake(context: CommandContext, id: VmId, untilMs: number | undefined): CommandResult {
  const { store, newOperationId } = context
  const result = store.transaction((): CommandResult => {
    const found = changeableVm(store, id)
    if (!found.ok) return found
    const before = found.value
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
  if (result.ok && result.value.changed) context.poke(id, 'keep awake')
  return result
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
 * Returns whether the guest was last seen asleep or waking. A guest that is saved, and that a fault keeps from waking,
 * counts too.
 */
const isSeenAway = ({ observed: { state, savedState } }: VmRecord): boolean =>
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
