import { isDeepStrictEqual } from 'node:util'
import { limits } from '../../config/limits.ts'
import { isUndecided } from '../../core/migration/departure.ts'
import { hasLeft, refuseWhileComing, refuseWhileMoving, withoutOffer } from '../../core/vm/leaving.ts'
import { err, ok } from '../../lib/result.ts'
import { owesBootImages, owesRebuild, owesStop } from '../../core/vm/record.ts'
import { changeVm } from '../vm/store-desired.ts'
import { HOUR_MS } from '../../lib/time-units.ts'
import type { Rejection } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { Offer } from '../../core/migration/offer.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Offers a VM to a node, which may then take it. The same offer again changes nothing, and one with another expiry
 * moves the deadline.
 */
export function offerVm(context: CommandContext, id: VmId, offer: Offer): CommandResult {
  const { store, now, newOperationId } = context
  return changeVm(context, { id, reason: `offered to ${offer.node}` }, (before) => {
    const departure = departureBy(before, offer)
    if (departure !== undefined && isDeepStrictEqual(before.desired.migration, offer))
      return ok({ record: before, changed: false })
    const movesDeadline = departure !== undefined && isUndecided(departure)
    const nowMs = now()
    const refusal =
      (movesDeadline ? undefined : refuseOffer(context, before, offer)) ?? refuseExpiry(offer, nowMs)
    if (refusal !== undefined) return err(refusal)
    const record = store.vms.changeDesired(id, {
      desired: { ...before.desired, migration: offer },
      departure: departure ?? begin(offer, nowMs),
      operationId: newOperationId(),
      nowMs,
    })
    return ok({ record, changed: true })
  })
}

/**
 * Withdraws the offer of a VM; the guest stays, and wakes if it was saved for the move. Changes nothing without one,
 * and refuses a VM that comes: its offer is at its source.
 */
export function withdrawOffer(context: CommandContext, id: VmId): CommandResult {
  const { store } = context
  return changeVm(context, { id, reason: 'offer withdrawn' }, (before) => {
    const coming = refuseWhileComing(before)
    if (coming !== undefined) return err(coming)
    if (before.desired.migration === undefined) return ok({ record: before, changed: false })
    const refusal = hasLeft(before) ? refuseWhileMoving(before) : undefined
    if (refusal !== undefined) return err(refusal)
    const nowMs = context.now()
    const { wakes, ...end } = withoutOffer(before, 'withdrawn', nowMs)
    const operationId = context.newOperationId()
    const record = store.vms.changeDesired(id, { ...end, operationId, nowMs })
    if (wakes) store.vms.requestWake(id, { reason: 'withdrawn', atMs: nowMs })
    // Reads the record as it is now, because a rehearsal plans with it.
    return ok({ record: store.vms.get(id) ?? record, changed: true })
  })
}

const begin = ({ id, node, mode }: Offer, nowMs: number): Departure => ({
  id,
  node,
  mode,
  stage: 'offered',
  sinceMs: nowMs,
})

/** Returns the departure that this offer has begun, maybe with another expiry; undefined if it was withdrawn. */
function departureBy({ departure }: VmRecord, { id, node, mode }: Offer): Departure | undefined {
  if (departure === undefined || departure.stage === 'withdrawn') return undefined
  return isDeepStrictEqual([departure.id, departure.node, departure.mode], [id, node, mode])
    ? departure
    : undefined
}

const ended = (id: VmId, departure: Departure): Rejection => ({
  code: 'migration_ended',
  detail: `migration ${departure.id} of ${id} has ended (${departure.because}): offer ${id} under a new migration id`,
})

function refuseOffer({ store }: CommandContext, before: VmRecord, offer: Offer): Rejection | undefined {
  const { id, departure } = before
  const leaving = refuseWhileMoving(before)
  if (leaving !== undefined) return leaving
  if (departure?.id === offer.id) return ended(id, departure)
  if (owesStop(before) && (before.desired.power !== 'stopped' || before.stops.grace !== undefined))
    return { code: 'vm_busy', detail: `the guest of ${id} is to end: wait until that is done` }
  if (owesRebuild(before))
    return { code: 'vm_busy', detail: `the disk of ${id} is being rebuilt: wait until that is done` }
  if (owesBootImages(before))
    return {
      code: 'vm_busy',
      detail: `${id} is being given another kernel or initrd: wait until that is done`,
    }
  const other = store.departures.of(offer.id)
  if (other !== undefined) {
    const detail = `migration ${offer.id} is one of ${other.id}: choose another id`
    return { code: 'conflict', detail }
  }
  if (store.departures.departed(offer.id) !== undefined) {
    const detail = `migration ${offer.id} has ended before: choose another id`
    return { code: 'conflict', detail }
  }
  const snapshot = store.snapshots.unfinished().find(({ vmId }) => vmId === id)
  if (snapshot !== undefined) {
    const detail = `snapshot ${snapshot.id} of ${id} is not uploaded yet: wait for its end, or delete it`
    return { code: 'snapshot_under_way', detail }
  }
  if (store.departures.undecided().length >= limits.offersMax) {
    const detail = `this host has ${limits.offersMax} offers that are not decided: wait until some have ended, or withdraw them`
    return { code: 'offers_full', detail }
  }
  return undefined
}

function refuseExpiry({ expiresAtMs }: Offer, nowMs: number): Rejection | undefined {
  const leftMs = expiresAtMs - nowMs
  if (leftMs > 0 && leftMs <= limits.offerMsMax) return undefined
  const detail = `an offer must expire within ${limits.offerMsMax / HOUR_MS} hours from now, and this one ${
    leftMs <= 0 ? 'has expired' : 'expires later'
  }`
  return {
    code: 'invalid_request',
    detail,
    errors: [{ pointer: '/expires_at', code: 'out_of_range', detail }],
  }
}
