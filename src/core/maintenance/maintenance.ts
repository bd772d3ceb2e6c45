/**
 * States that a controller can desire of a host. `schedulable`: it takes VMs. `cordoned`: it takes no VM, no growth and no
 * VM from another host; its guests live on.
 */
export const MAINTENANCE_STATES = ['schedulable', 'cordoned'] as const
export type MaintenanceState = (typeof MAINTENANCE_STATES)[number]

/** The state that a request asks for. */
export type WantedMaintenance = {
  readonly state: MaintenanceState
  /** The words of the operator. */
  readonly reason?: string
}

/** The desired state of the host. */
export type Maintenance = WantedMaintenance & {
  /** When the state began, in milliseconds since the epoch; absent if it was never set. */
  readonly sinceMs?: number
}

/** The state of a host of which nothing was desired. */
export const SCHEDULABLE: Maintenance = { state: 'schedulable' }

/** Returns whether the host takes nothing more. */
export const isCordoned = ({ state }: Maintenance): boolean => state !== 'schedulable'
