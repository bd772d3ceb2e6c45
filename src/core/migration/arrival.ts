import { unreachable } from '../../lib/assert.ts'
import type { ArrivalId, DepartureRefusal } from './departure.ts'
import type { MigrationId } from './offer.ts'

/**
 * How far a VM has come to this host, as stored; a daemon that starts again continues from it.
 *
 * - `pulling`: rounds of the disk, then the handover;
 * - `pulled`: disk and memory are complete on this host's disk, and the release may have been requested;
 * - `released`: the source has let the guest go, so it may run here;
 * - `refused`: the guest stays at the source, and nothing of it may run here.
 */
export type ArrivalStage = (typeof ARRIVAL_STAGES)[number]

/** All stages, in their order. */
export const ARRIVAL_STAGES = ['pulling', 'pulled', 'released', 'refused'] as const

/** The destination's side of a migration. */
export type Arrival = {
  readonly id: ArrivalId
  readonly migrationId: MigrationId
  readonly stage: ArrivalStage
  /** The last round that is complete on this host's disk; 0 if there is none. */
  readonly round: number
  /** Why the stage is `refused`. */
  readonly because?: DepartureRefusal
}

/** A request of a destination that its source may refuse. */
export type ArrivalRequest = 'copy' | 'hand_over' | 'release'

/** Events of an arrival. `released` and `refused` are answers of the source. */
export type ArrivalEvent =
  | { readonly kind: 'round_pulled'; readonly round: number }
  | { readonly kind: 'all_pulled'; readonly lastRound: number }
  | { readonly kind: 'released' }
  | { readonly kind: 'refused'; readonly request: ArrivalRequest; readonly because: DepartureRefusal }

/** Returns the arrival after an event; the same arrival if the event comes too late to matter. */
export function arrivalAfter(arrival: Arrival, event: ArrivalEvent): Arrival {
  const { stage } = arrival
  if (stage === 'released' || stage === 'refused') return arrival
  switch (event.kind) {
    case 'round_pulled':
      return stage === 'pulling' ? { ...arrival, round: event.round } : arrival
    case 'all_pulled':
      return stage === 'pulling' ? { ...arrival, stage: 'pulled', round: event.lastRound } : arrival
    case 'released':
      return stage === 'pulled' ? { ...arrival, stage: 'released' } : arrival
    case 'refused':
      // With the guest at hand, only the refusal of its release counts. A late answer to an earlier request does not.
      if ((stage === 'pulled') !== (event.request === 'release')) return arrival
      return event.because === 'too_early'
        ? arrival
        : { ...arrival, stage: 'refused', because: event.because }
    default:
      return unreachable(event)
  }
}

/** Returns whether the guest may run on this host. */
export const mayRunHere = ({ stage }: Pick<Arrival, 'stage'>): boolean => stage === 'released'
