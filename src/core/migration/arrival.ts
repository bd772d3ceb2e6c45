import { unreachable } from '../../lib/assert.ts'
import type { FaultCode, Hindrance } from '../errors.ts'
import type { ArrivalId, DepartureRefusal } from './departure.ts'
import type { MigrationId } from './offer.ts'

/**
 * How far a VM has come to this host, as stored; a daemon that starts again continues from it.
 *
 * - `pulling`: rounds of the disk, then the handover;
 * - `pulled`: disk and memory are complete on this host's disk, and the release may have been requested;
 * - `released`: the source released the guest, so it may run here;
 * - `refused`: the guest stays at the source, and nothing of it may run here.
 */
export type ArrivalStage = (typeof ARRIVAL_STAGES)[number]

/** All stages, in their order. */
export const ARRIVAL_STAGES = ['pulling', 'pulled', 'released', 'refused'] as const

/**
 * Why nothing of the guest may run here. `unknown`: the source knows no such offer to this node. `unfit`: this host
 * gave it up, and the source has it. `drained`: likewise, because this host was drained.
 */
export type ArrivalRefusal = DepartureRefusal | 'unknown' | 'unfit' | 'drained'

/** A hindrance that keeps a VM from coming here; it is tried again. */
export type ArrivalTrouble = Hindrance & {
  /** The attempt that failed; absent, as the time, on a record of an older version. */
  readonly attempt?: number
  /** When the next one begins. Milliseconds since the epoch. */
  readonly nextAttemptAtMs?: number
}

/** How much of the present round is copied. */
export type CopyProgress = {
  readonly round: number
  readonly copiedBytes: number
  readonly totalBytes: number
}

/** The destination's side of a migration. */
export type Arrival = {
  readonly id: ArrivalId
  readonly migrationId: MigrationId
  /** The coordination API of the source, as an origin: `https://10.0.0.1:9001`. */
  readonly source: string
  readonly stage: ArrivalStage
  /** From `pulled` on, whether the guest ran at the source, so that it is loaded here before its release. */
  readonly wakes: boolean
  /** Set when the source was asked to save the guest: its packets may come here from now on. */
  readonly expectsGuest?: true
  /** The last round that is complete on this host's disk; 0 if there is none. */
  readonly round: number
  /** When this host read of the release. Milliseconds since the epoch. */
  readonly releasedAtMs?: number
  /** Why the stage is `refused`. */
  readonly because?: ArrivalRefusal
  readonly trouble?: ArrivalTrouble
  readonly progress?: CopyProgress
}

/** A request of a destination that its source may refuse. */
export type ArrivalRequest = 'copy' | 'hand_over' | 'release'

/** Events of an arrival. `released` and `refused` are answers of the source. */
export type ArrivalEvent =
  | { readonly kind: 'round_pulled'; readonly round: number }
  | { readonly kind: 'handing_over' }
  | { readonly kind: 'all_pulled'; readonly lastRound: number; readonly wakes: boolean }
  | { readonly kind: 'released'; readonly atMs: number }
  | { readonly kind: 'refused'; readonly request: ArrivalRequest; readonly because: ArrivalRefusal }

/** Returns the arrival after an event; the same arrival if the event comes too late to matter. */
export function arrivalAfter(arrival: Arrival, event: ArrivalEvent): Arrival {
  const { trouble: _over, progress: _past, ...rest } = arrival
  const { stage } = arrival
  if (!isComing(arrival)) return arrival
  switch (event.kind) {
    case 'round_pulled':
      return stage === 'pulling' ? { ...rest, round: event.round } : arrival
    case 'handing_over':
      return stage === 'pulling' ? { ...rest, ...poolTrouble(arrival), expectsGuest: true } : arrival
    case 'all_pulled':
      return stage === 'pulling'
        ? { ...rest, stage: 'pulled', round: event.lastRound, wakes: event.wakes }
        : arrival
    case 'released':
      return stage === 'pulled' ? { ...rest, stage: 'released', releasedAtMs: event.atMs } : arrival
    case 'refused':
      // With the guest at hand, only the refusal of its release counts. A late answer to an earlier request does not.
      if ((stage === 'pulled') !== (event.request === 'release')) return arrival
      return event.because === 'too_early' ? arrival : { ...rest, stage: 'refused', because: event.because }
    default:
      return unreachable(event)
  }
}

/**
 * Returns the arrival once so much of a round is copied. Trouble of its source is over then. The next write may meet
 * that of a pool again, so only a whole round ends it.
 */
export function copiedFurther(arrival: Arrival, progress: CopyProgress): Arrival {
  const { trouble: _over, ...rest } = arrival
  return { ...rest, ...poolTrouble(arrival), progress }
}

/** Returns whether a pool is in trouble. The code does not say whether it is that of this host. */
export const isPoolTrouble = ({ code }: ArrivalTrouble): boolean => POOL_FAULTS.has(code)

const poolTrouble = ({ trouble }: Arrival): Pick<Arrival, 'trouble'> =>
  trouble !== undefined && isPoolTrouble(trouble) ? { trouble } : {}

const POOL_FAULTS: ReadonlySet<FaultCode> = new Set([
  'storage_failed',
  'storage_full',
  'storage_inspection_failed',
  'storage_read_only',
])

/** Returns whether the source may still release the guest. */
export const isComing = ({ stage }: Pick<Arrival, 'stage'>): boolean =>
  stage === 'pulling' || stage === 'pulled'
