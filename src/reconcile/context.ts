/** Types that the worker, its passes and their parts share. */
import type { FaultCode } from '../core/errors.ts'
import type { VmId } from '../core/ids.ts'
import type { Facts } from '../core/plan/facet.ts'
import type { Plan, Step, StepKind } from '../core/plan/step.ts'
import type { ResyncTerms } from '../core/retry/retry.ts'
import type { VmInputs } from '../core/vm/create.ts'
import type { LastWake, PartialFault, VmRecord } from '../core/vm/record.ts'
import type { World } from '../core/world/world.ts'
import type { UnchangedSince } from '../lib/unchanged-since.ts'
import type { Log } from '../log/log.ts'
import type { Host } from '../ports/host.ts'
import type { Store } from '../store/store.ts'
import type { Intent } from './intent.ts'
import type { MemoryRoom } from './memory-room.ts'
import type { PlaceQueue } from './place-queue.ts'
import type { Graces, HostEnd, Silences, StoppedVms } from './remembered.ts'

/** Parts of the daemon that all passes and the sweep use. */
export type PassContext = {
  readonly store: Store
  readonly host: Host
  readonly log: Log
  readonly observer?: PassObserver
  /** Hears that a step has brought an image into the pool. */
  readonly onImage?: () => void
}

/** Counts what passes do. It never throws, and nothing depends on it. */
export type PassObserver = {
  readonly passEnded: (ms: number) => void
  readonly planned: (outcome: Plan['outcome']) => void
  /** `step` is the step that failed, or the inspection. */
  readonly passFailed: (step: string, code: FaultCode) => void
  /** `code` is that of the fault with which the step failed. */
  readonly stepEnded: (step: StepKind, ms: number, code?: FaultCode) => void
  readonly woken: (wake: LastWake) => void
}

/** The context that the workers of one reconciler share. */
export type WorkerContext = PassContext & {
  /** The number of VMs on this host. */
  readonly vmCount: () => number
  readonly saves: PlaceQueue
  /** Restores after a boot or a maintenance of the host. */
  readonly restores: PlaceQueue
  readonly silences: Silences
  /** When each VM that waits began its present state, by its record. */
  readonly waits: UnchangedSince<VmId, number>
  readonly stopped: StoppedVms
  readonly graces: Graces
  readonly hostEnd: HostEnd
  readonly memory: MemoryRoom
}

/** Returns what decides when a settled VM is looked at again. It draws a random number. */
export const resyncTerms = ({ vmCount, host: { clock } }: WorkerContext): ResyncTerms => ({
  vms: vmCount(),
  random: clock.random(),
  monotonicMs: clock.monotonicMs(),
})

/** Describes why a pass runs. */
export type Cause = {
  readonly reasons: readonly string[]
  /** When (monotonic) desired state or its inputs changed; no back-off holds a change. */
  readonly changedAtMs?: number
  /** Number of acting passes in a row before this one. */
  readonly actingPasses: number
}

/** Given to a pass by its worker. */
export type PassTerms = {
  readonly cause: Cause
  readonly signal: AbortSignal
  /** Also aborted when the guest must end now, whatever the running step does. */
  readonly guestMustEnd: AbortSignal
  /** Runs a step of the pass; a long one lets the passes of other VMs go on meanwhile. Rejects as the step does. */
  readonly during: (step: Step, run: () => Promise<void>) => Promise<void>
}

/** The next action of the worker after a pass. */
export type Next = { readonly kind: 'again' } | Later | { readonly kind: 'gone' }
export type Later = { readonly kind: 'after'; readonly ms: number }

/** One pass over one VM: what it read at its start, and what it found. */
export type Pass = WorkerContext &
  PassTerms & {
    /**
     * The record to plan with: read once, then changed by what this look notes. While a guest may still end by itself,
     * it desires `running`. Its generation is the one that is published.
     */
    readonly record: VmRecord
    readonly inputs: VmInputs
    readonly intent: Intent
    readonly world: World
    /** How long the monitor has not answered, in milliseconds. */
    readonly silentMs: number
    /** The effect of the maintenance of the host on this VM; undefined: none. */
    readonly drain: Facts['drain']
    /** Everything that this look found wrong. */
    readonly found: readonly PartialFault[]
  }
