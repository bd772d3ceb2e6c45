import { isPoolTrouble } from '../migration/arrival.ts'
import { afterEvent, isHandover, isUndecided } from '../migration/departure.ts'
import type { Desired } from '../desired.ts'
import type { Rejection } from '../errors.ts'
import type { VmId } from '../ids.ts'
import type { Arrival } from '../migration/arrival.ts'
import type { Departure, WithdrawalReason } from '../migration/departure.ts'
import type { NodeName } from '../migration/offer.ts'
import type { VmRecord } from './record.ts'

/** The members of a record that say whether the VM moves. */
type Leaving = Pick<VmRecord, 'id' | 'desired' | 'departure' | 'arrival'>

/**
 * Returns why a VM takes no changes while it moves from host to host, or after it has left; undefined if it takes them.
 */
export function refuseWhileMoving(vm: Pick<Leaving, 'id' | 'departure' | 'arrival'>): Rejection | undefined {
  const coming = refuseWhileComing(vm)
  if (coming !== undefined) return coming
  const { id, departure } = vm
  if (departure === undefined || departure.stage === 'withdrawn') return undefined
  if (isUndecided(departure)) {
    const detail = `${id} is offered to ${departure.node} by migration ${departure.id}, which is not decided yet: wait for its end, or withdraw it with DELETE /v1/vms/${id}/migration`
    return { code: 'vm_migrating', detail }
  }
  return refuseLeft(id, departure, 'change it there, and delete it here')
}

function refuseLeft(id: VmId, { id: migration, node }: Departure, what: string): Rejection {
  return { code: 'vm_migrated', detail: `${id} was released to ${node} by migration ${migration}: ${what}` }
}

/** Returns why a VM that is not released to this host takes no changes; undefined for any other. */
export const refuseWhileComing = (vm: Pick<Leaving, 'id' | 'arrival'>): Rejection | undefined =>
  isNotReleased(vm) ? refuseArriving(vm.id, vm.arrival) : undefined

/**
 * Returns why a VM cannot be deleted now; undefined if it can. The source of a VM that is here as a whole may have
 * released the guest already, so this may be its only copy.
 */
export function refuseDeletion(
  { id, arrival }: Pick<Leaving, 'id' | 'arrival'>,
  sourceLost: boolean,
): Rejection | undefined {
  const mayBeOnlyCopy = arrival?.stage === 'pulled'
  if (!sourceLost) return mayBeOnlyCopy ? refuseArriving(id, arrival) : undefined
  if (mayBeOnlyCopy && arrival.trouble !== undefined) return undefined
  const why = mayBeOnlyCopy
    ? 'its source has answered so far'
    : 'it does not wait for a release by its source'
  return { code: 'source_not_lost', detail: `${id} was not deleted: ${why}; read it again, and decide again` }
}

/** Returns the refusal of a change to a VM that is not released to this host. */
function refuseArriving(id: VmId, { migrationId, stage, trouble }: Arrival): Rejection {
  const detail = (): string => {
    if (stage === 'refused')
      return `${id} does not come by migration ${migrationId}, which has ended: delete it here`
    const coming = `${id} is coming by migration ${migrationId}: wait until it is here, or withdraw the offer at its source`
    if (trouble === undefined || isPoolTrouble(trouble)) return coming
    return stage === 'pulled'
      ? `${coming}; if that host is lost for good, delete the VM here with source_lost=true`
      : `${coming}; if that host is lost for good, delete it here`
  }
  return { code: 'vm_arriving', detail: detail() }
}

/** Returns whether another host may take the VM, or is taking it. */
export const isLeaving = ({ departure }: Pick<Leaving, 'departure'>): boolean =>
  departure !== undefined && isUndecided(departure)

/** Returns whether another host has the VM. */
export const hasLeft = ({ departure }: Pick<Leaving, 'departure'>): boolean => departure?.stage === 'released'

/**
 * Returns whether the VM is one of another host that has not released it to this one: it is on its way, or was refused.
 * Nothing of it may run here.
 */
export const isNotReleased = <T extends { readonly arrival?: Arrival | undefined }>(
  vm: T,
): vm is T & { readonly arrival: Arrival } => vm.arrival !== undefined && vm.arrival.stage !== 'released'

/** Returns the node of the host that has the VM now; undefined if it has not left. */
export const nodeAfter = ({ departure }: Pick<Leaving, 'departure'>): NodeName | undefined =>
  departure?.stage === 'released' ? departure.node : undefined

/** Returns why a VM has no console here: it is where the VM is. Undefined if the VM has not left. */
export function refuseLeftConsole({
  id,
  departure,
}: Pick<Leaving, 'id' | 'departure'>): Rejection | undefined {
  return departure?.stage === 'released'
    ? refuseLeft(id, departure, 'its console is at that host')
    : undefined
}

/**
 * Returns whether nothing may run or wake the guest on this host: it is down for the handover, has left, or is not
 * released to this host.
 */
export const isHeldBack = ({ departure, arrival }: Pick<Leaving, 'departure' | 'arrival'>): boolean =>
  (departure !== undefined && (isHandover(departure) || hasLeft({ departure }))) || isNotReleased({ arrival })

export type OfferEnd = {
  readonly desired: Desired
  /** Absent if no migration is under way. */
  readonly departure?: Departure
  /** Whether the guest was saved for the move, and must run again. */
  readonly wakes: boolean
}

/** Returns desired state without its offer, and the departure after its withdrawal if it was not decided. */
export function withoutOffer(
  { desired: { migration: _ended, ...desired }, departure }: Pick<Leaving, 'desired' | 'departure'>,
  because: WithdrawalReason,
  nowMs: number,
): OfferEnd {
  const stays: OfferEnd = { desired, wakes: false }
  if (departure === undefined || !isUndecided(departure)) return stays
  const withdrawn = afterEvent(departure, { kind: 'withdraw', because }, nowMs)
  if (!withdrawn.ok) return stays
  const hasGuest = because !== 'stopped' && because !== 'deleted' && because !== 'guest_lost'
  const wasAwake = departure.lived !== 'sleeping' && departure.lived !== 'stopped'
  const wakes = isHandover(departure) && wasAwake && hasGuest
  return { desired, departure: withdrawn.value, wakes }
}
