import type { OperationId } from '../ids.ts'

/**
 * States that a controller can desire of a host. `schedulable`: it takes VMs. `cordoned`: it takes no VM, no growth and
 * no VM from another host; its guests live on. `drained`: besides, its guests come to rest, and none starts or wakes.
 */
export const MAINTENANCE_STATES = ['schedulable', 'cordoned', 'drained'] as const
export type MaintenanceState = (typeof MAINTENANCE_STATES)[number]

/** States that a host shows. `draining`: it is to be drained, and guests are left. */
export const SHOWN_MAINTENANCE = ['schedulable', 'cordoned', 'draining', 'drained'] as const
export type ShownMaintenance = (typeof SHOWN_MAINTENANCE)[number]

/** Ways in which a guest comes to rest. `sleep`: it is saved. `stop`: it is asked to end, and boots afterwards. */
export const DRAIN_WAYS = ['sleep', 'stop'] as const

/** How the guests of a drained host come to rest. */
export type Drain = {
  readonly guests: (typeof DRAIN_WAYS)[number]
  /** Time in which a guest that is to stop may end by itself; 0 is a hard stop. */
  readonly graceSeconds: number
  /** The most guests that come to rest at the same time. */
  readonly atOnce: number
}

/** The state that a request asks for. */
export type WantedMaintenance = {
  readonly state: MaintenanceState
  /** The words of the operator. */
  readonly reason?: string
  /** Present if the state is `drained`. */
  readonly drain?: Drain
}

/** The desired state of the host. */
export type Maintenance = WantedMaintenance & {
  /** The mutation that set the state; absent if it was never set, or by a version that did not note it. */
  readonly operationId?: OperationId
  /** When the state began, in milliseconds since the epoch; absent if it was never set. */
  readonly sinceMs?: number
  /** Since when no guest is left on a host that is to be drained. */
  readonly emptySinceMs?: number
}

/** The state of a host of which nothing was desired. */
export const SCHEDULABLE: Maintenance = { state: 'schedulable' }

/** Returns whether the host takes nothing more. */
export const isCordoned = ({ state }: Maintenance): boolean => state !== 'schedulable'

export const shownMaintenance = ({ state, emptySinceMs }: Maintenance): ShownMaintenance =>
  state === 'drained' && emptySinceMs === undefined ? 'draining' : state
