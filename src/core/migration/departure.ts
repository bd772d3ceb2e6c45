import { err, ok } from '../../lib/result.ts'
import { unreachable } from '../../lib/assert.ts'
import type { Brand } from '../../lib/brand.ts'
import type { Result } from '../../lib/result.ts'
import type { MigrationId, MigrationMode, NodeName } from './offer.ts'

/** How a guest lives at its host. */
export type GuestPower = (typeof GUEST_POWERS)[number]
export const GUEST_POWERS = ['running', 'sleeping', 'stopped', 'paused'] as const

/**
 * Names one attempt of a destination to take a VM. The destination chooses it at random and keeps it in its record, so
 * two hosts that were given the same offer, or one host that lost its record, have different ones.
 */
export type ArrivalId = Brand<string, 'ArrivalId'>

/** How far a VM has left this host. */
export type DepartureStage = (typeof DEPARTURE_STAGES)[number]

/** All stages, in their order. */
export const DEPARTURE_STAGES = [
  'offered',
  'copying',
  'handing_over',
  'handed_over',
  'released',
  'withdrawn',
] as const

/**
 * Why the guest stays. `expired`: no destination took it in time. `handover_expired`: it was down for too long.
 * `withdrawn`, `stopped`, `deleted`: a request of the controller. `aborted`: the destination gave it up. `guest_lost`:
 * the guest ended before it was saved, or its saved state cannot be used.
 */
export type WithdrawalReason = (typeof WITHDRAWAL_REASONS)[number]
export const WITHDRAWAL_REASONS = [
  'expired',
  'handover_expired',
  'withdrawn',
  'stopped',
  'deleted',
  'aborted',
  'guest_lost',
] as const

/**
 * The source's side of a migration. This record alone decides which host may run the guest: the destination from
 * `released` on, this host in every other stage.
 */
export type Departure = {
  readonly id: MigrationId
  /** The only node that may take the VM; it may still ask when the offer is withdrawn. */
  readonly node: NodeName
  readonly mode: MigrationMode
  readonly stage: DepartureStage
  /** When the stage began. Milliseconds since the epoch. */
  readonly sinceMs: number
  /** The destination that copies; absent while the stage is `offered`. */
  readonly arrival?: ArrivalId
  /** When the handover began; absent before. */
  readonly handoverSinceMs?: number
  /** How the guest lived when the handover began, and so how it must live at the destination; absent before. */
  readonly lived?: GuestPower
  /**
   * The newest round of the disk that this destination asked for; absent before the first. It is stored before the
   * round is taken, so no round is there that the record does not know.
   */
  readonly round?: number
  /** Number of the round that was taken from the disk of the saved guest; set from `handed_over` on. */
  readonly lastRound?: number
  /** Set when the stage is `withdrawn`. */
  readonly because?: WithdrawalReason
}

/** Events of a departure. Those with an arrival are requests of a destination, and may be repeated. */
export type DepartureEvent =
  | { readonly kind: 'copy'; readonly arrival: ArrivalId }
  | { readonly kind: 'take_round'; readonly arrival: ArrivalId; readonly number: number }
  | { readonly kind: 'hand_over'; readonly arrival: ArrivalId; readonly lived: GuestPower }
  | { readonly kind: 'guest_saved'; readonly lastRound: number }
  | { readonly kind: 'release'; readonly arrival: ArrivalId; readonly lastRound: number }
  | { readonly kind: 'abort'; readonly arrival: ArrivalId }
  | { readonly kind: 'withdraw'; readonly because: WithdrawalReason }

/**
 * Why an event has no effect. `withdrawn`: the guest stays at the source. `released`: another destination, or none, can
 * have it any more. `not_yours`: another destination copies. `too_early`: the guest is not handed over yet. `outdated`:
 * the destination does not have the last round.
 */
export type DepartureRefusal = 'withdrawn' | 'released' | 'not_yours' | 'too_early' | 'outdated'

/**
 * Why a destination gets nothing from the source. `unknown`: there is no such migration to its node. `busy`: it must
 * ask again later.
 */
export type SourceRefusal = DepartureRefusal | 'unknown' | 'busy'

/** Returns whether the migration may still end in either way. */
export const isUndecided = ({ stage }: Pick<Departure, 'stage'>): boolean =>
  stage !== 'released' && stage !== 'withdrawn'

/** Returns whether the guest is down for the handover, or must be. */
export const isHandover = ({ stage }: Pick<Departure, 'stage'>): boolean =>
  stage === 'handing_over' || stage === 'handed_over'

/** Returns why this destination can read nothing of the guest; undefined if it can read what there is in this stage. */
export function refuseRead(
  { stage, arrival: copying }: Departure,
  arrival: ArrivalId,
): DepartureRefusal | undefined {
  if (stage === 'withdrawn' || stage === 'released') return stage
  return copying === arrival ? undefined : 'not_yours'
}

/** Returns a departure that a destination begins to copy: it has no rounds yet. */
function copiedBy({ round: _former, ...departure }: Departure, arrival: ArrivalId, nowMs: number): Departure {
  return { ...departure, arrival, stage: 'copying', sinceMs: nowMs }
}

/** Returns the departure after an event. A repeated request returns the same departure. */
export function afterEvent(
  departure: Departure,
  event: DepartureEvent,
  nowMs: number,
): Result<Departure, DepartureRefusal> {
  const { stage } = departure
  if (stage === 'withdrawn')
    return event.kind === 'withdraw' || event.kind === 'abort' ? ok(departure) : err('withdrawn')
  const enter = (next: DepartureStage, more: Partial<Departure> = {}): Result<Departure, DepartureRefusal> =>
    ok({ ...departure, ...more, stage: next, sinceMs: nowMs })
  switch (event.kind) {
    case 'copy':
      // Also after the release: a late request must not make its destination give the guest up.
      if (departure.arrival === event.arrival) return ok(departure)
      if (stage === 'released') return err('released')
      // A destination that lost its record begins again, as long as the guest was not stopped for it.
      return isHandover(departure) ? err('not_yours') : ok(copiedBy(departure, event.arrival, nowMs))
    case 'take_round':
      if (stage === 'released') return err('released')
      if (departure.arrival !== event.arrival) return err('not_yours')
      if (stage === 'handing_over') return err('too_early')
      if (stage === 'handed_over')
        return event.number === departure.lastRound ? ok(departure) : err('outdated')
      // Only the next one: the destination repeats a round, or asks for one whose predecessor is gone.
      return ok(
        event.number === (departure.round ?? 0) + 1 ? { ...departure, round: event.number } : departure,
      )
    case 'hand_over':
      if (departure.arrival !== event.arrival) return err('not_yours')
      return stage === 'copying'
        ? enter('handing_over', { lived: event.lived, handoverSinceMs: nowMs })
        : ok(departure)
    case 'guest_saved':
      if (stage === 'handing_over') return enter('handed_over', { lastRound: event.lastRound })
      return stage === 'handed_over' || stage === 'released' ? ok(departure) : err('too_early')
    case 'release':
      if (departure.arrival !== event.arrival) return err('not_yours')
      if (stage !== 'handed_over' && stage !== 'released') return err('too_early')
      if (departure.lastRound !== event.lastRound) return err('outdated')
      return stage === 'released' ? ok(departure) : enter('released')
    case 'abort':
      // First: a destination that reads `released` here may run the guest.
      if (departure.arrival !== undefined && departure.arrival !== event.arrival) return err('not_yours')
      return stage === 'released' ? err('released') : enter('withdrawn', { because: 'aborted' })
    case 'withdraw':
      return stage === 'released' ? err('released') : enter('withdrawn', { because: event.because })
    default:
      return unreachable(event)
  }
}
