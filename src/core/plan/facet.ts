import { blockedBy, SETTLED } from './step.ts'
import type { MemoryStanding } from '../capacity/memory-standing.ts'
import type { MonitorCapabilities } from '../monitor/machine-spec.ts'
import type { TapSpec } from '../network/tap.ts'
import type { Probe } from '../world/world.ts'
import type { Blocked, Lane, Plan, Step, Waiting } from './step.ts'

/** One part of a plan: the steps to take, or the reason why nothing after this part can be decided yet. */
export type Facet = readonly Step[] | Waiting | Blocked

/**
 * Joins facets to a plan. Each facet is evaluated only after the ones before it. The first facet that waits or is
 * blocked ends the plan, which then holds the steps gathered so far.
 */
export function inOrder(...facets: readonly (() => Facet)[]): Plan {
  const { steps, stop } = gather(facets)
  const [first, ...rest] = steps
  if (first === undefined) return stop ?? SETTLED
  return { outcome: 'act', steps: [first, ...rest] }
}

/**
 * Joins lanes that do not wait for each other. A lane that cannot act does not keep the others from acting, neither in
 * the plan nor when a step fails. Within a lane, facets are in order.
 */
export function beside(lanes: Partial<Record<Lane, readonly (() => Facet)[]>>): Facet {
  const parts = Object.entries(lanes).map(([lane, facets]) => ({ lane: lane as Lane, ...gather(facets) }))
  const steps = parts.flatMap((part) => part.steps.map((step) => ({ ...step, lane: part.lane })))
  return steps.length > 0 ? steps : (parts.find(({ stop }) => stop !== undefined)?.stop ?? [])
}

function gather(facets: readonly (() => Facet)[]): { steps: readonly Step[]; stop?: Waiting | Blocked } {
  const steps: Step[] = []
  for (const facet of facets) {
    const part = facet()
    if (isStop(part)) return { steps, stop: part }
    steps.push(...part)
  }
  return { steps }
}

/** Gives a facet the value of an inspection, or blocks the facet if the inspection failed. */
export function when<T>(room: string, probe: Probe<T>, facet: (value: T) => Facet): Facet {
  return probe.known ? facet(probe.value) : blockedBy(`${room}.inspect`, probe)
}

const isStop = (facet: Facet): facet is Waiting | Blocked => 'outcome' in facet

/**
 * The end of a guest that runs while the host shuts down. `save`: it is saved. `ask`: it is asked to end. `leave`: it
 * was asked, and is left to end until it is asked again, after `askAgainMs`.
 */
export type GuestAtShutdown =
  | { readonly do: 'save' }
  | { readonly do: 'ask' }
  | { readonly do: 'leave'; readonly askAgainMs: number }

/** The end of all guests that run while the host shuts down: they are saved, or asked to end. */
export type GuestsAtShutdown = 'save' | 'ask'

/** Everything that planning needs besides desired and observed. */
export type Facts = {
  readonly nowMs: number
  /** Whether one more VM may be saved now: saves share the disk. */
  readonly maySave: boolean
  /** Whether one more guest may be restored now after a boot or a maintenance of the host. */
  readonly mayRestore: boolean
  /** Present while the host shuts down: what becomes of the guest if it runs. */
  readonly guestAtShutdown?: GuestAtShutdown
  /**
   * Present on a host that is to be drained. `hold`: nothing is started or woken. `save`: in addition,
   * the guest is saved.
   */
  readonly drain?: 'hold' | 'save'
  /** Returns whether the VM has its memory, or can have it back. It sums over all VMs, so only a start asks. */
  readonly memory: () => MemoryStanding
  /** Whether a VM waits for memory, so that idle VMs sleep early. */
  readonly memoryIsShort: boolean
  /** How long the monitor of the active unit has not answered, in milliseconds; 0 if it answers. */
  readonly silentMs: number
  readonly capabilities: MonitorCapabilities
  /** Digest of the seed disk as it must be. */
  readonly seedDigest: string
  /** The tap as it must be; absent for a VM without network. */
  readonly tap?: TapSpec
}
