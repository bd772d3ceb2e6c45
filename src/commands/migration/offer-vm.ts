import { isDeepStrictEqual } from 'node:util'
import { limits } from '../../config/limits.ts'
import { refuseWhileLeaving, withoutOffer } from '../../core/vm/leaving.ts'
import { err, ok } from '../../lib/result.ts'
import { changeableVm } from '../vm/store-desired.ts'
import type { Rejection } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { Offer } from '../../core/migration/offer.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Offers a VM to a node, which may then take it. The same offer again changes nothing, and one with another expiry moves
 * the deadline.
 */
export function offerVm(context: CommandContext, id: VmId, offer: Offer): CommandResult {
  const { store, now, newOperationId } = context
  const result = store.transaction((): CommandResult => {
    const found = changeableVm(store, id)
    if (!found.ok) return found
    const before = found.value
    const refusal = isKnown(before, offer) ? undefined : refuseOffer(context, before, offer)
    const late = refusal ?? refuseExpiry(offer, now())
    if (isDeepStrictEqual(before.desired.migration, offer) && isMoving(before))
      return ok({ record: before, changed: false })
    if (late !== undefined) return err(late)
    const fresh: Departure = {
      id: offer.id,
      node: offer.node,
      mode: offer.mode,
      stage: 'offered',
      sinceMs: now(),
    }
    const record = store.vms.changeDesired(id, {
      desired: { ...before.desired, migration: offer },
      departure: isKnown(before, offer) ? (before.departure ?? fresh) : fresh,
      operationId: newOperationId(),
      nowMs: now(),
    })
    return ok({ record, changed: true })
  })
  if (result.ok && result.value.changed) context.poke(id, `offered to ${offer.node}`)
  return result
}

/** Withdraws the offer of a VM; the guest stays, and wakes if it was saved for the move. Changes nothing without one. */
export function withdrawOffer(context: CommandContext, id: VmId): CommandResult {
  const { store } = context
  const result = store.transaction((): CommandResult => {
    const found = changeableVm(store, id)
    if (!found.ok) return found
    const before = found.value
    if (before.desired.migration === undefined) return ok({ record: before, changed: false })
    if (before.departure?.stage === 'released') return err(refuseWhileLeaving(before) ?? ended(before))
    const nowMs = context.now()
    const { wakes, ...end } = withoutOffer(before, 'withdrawn', nowMs)
    const operationId = context.newOperationId()
    const record = store.vms.changeDesired(id, { ...end, operationId, nowMs })
    if (wakes) store.vms.requestWake(id, { reason: 'withdrawn', atMs: nowMs })
    return ok({ record, changed: true })
  })
  if (result.ok && result.value.changed) context.poke(id, 'offer withdrawn')
  return result
}

const isMoving = ({ departure }: VmRecord): boolean =>
  departure !== undefined && departure.stage !== 'withdrawn'

/** Returns whether this is an offer that the VM has, at most with another expiry. */
const isKnown = ({ desired: { migration }, departure }: VmRecord, offer: Offer): boolean =>
  migration !== undefined &&
  departure !== undefined &&
  departure.stage !== 'withdrawn' &&
  isDeepStrictEqual({ ...migration, expiresAtMs: 0 }, { ...offer, expiresAtMs: 0 })

const ended = ({ id, departure }: Pick<VmRecord, 'id' | 'departure'>): Rejection => ({
  code: 'migration_ended',
  detail: `migration ${departure?.id} of ${id} has ended (${departure?.because ?? departure?.stage}): offer ${id} under a new migration id`,
})

function refuseOffer({ store }: CommandContext, before: VmRecord, offer: Offer): Rejection | undefined {
  const { id } = before
  const leaving = refuseWhileLeaving(before)
  if (leaving !== undefined) return leaving
  if (before.departure?.id === offer.id) return ended(before)
  const other = store.departures.of(offer.id)
  if (other !== undefined) {
    const detail = `migration ${offer.id} is one of ${other.id}: choose another id`
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
  const detail = `an offer must expire within ${limits.offerMsMax / 3_600_000} hours from now, and this one ${
    leftMs <= 0 ? 'has expired' : 'expires later'
  }`
  return {
    code: 'invalid_request',
    detail,
    errors: [{ pointer: '/expires_at', code: 'out_of_range', detail }],
  }
}
