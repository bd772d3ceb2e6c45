import { holdsPlace } from '../../core/capacity/ledger.ts'
import { canSleep } from '../../core/sleep/idle-timeout.ts'
import type { Desired } from '../../core/desired.ts'
import type { OperationId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { InputsChange } from '../../core/vm/create.ts'
import type { Grace, VmRecord } from '../../core/vm/record.ts'

export type DesiredChange = {
  readonly desired?: Desired
  /** Counts the power as set by this change even if it was desired before: a guest that sleeps or has ended starts. */
  readonly repeatsPower?: boolean
  readonly deleting?: true
  /** Ends the guest that may exist now, whatever power follows. */
  readonly stops?: {
    /** Until when the guest may end by itself, in milliseconds since the epoch; absent: it is stopped hard. */
    readonly graceUntilMs?: number
  }
  /** Begins or ends a migration together with the change. */
  readonly departure?: Departure
  /** Stored beside the desired state. */
  readonly inputs?: InputsChange
  readonly operationId: OperationId
  readonly nowMs: number
}

/** Renders desired state as columns: itself, and what sums and searches over all VMs need of it. */
export const desiredColumns = (desired: Desired) => ({
  desired: JSON.stringify(desired),
  ipv4_address: desired.network?.ipv4Address ?? null,
  ipv6_address: desired.network?.ipv6Address ?? null,
  ipv6_prefix: desired.network?.ipv6Prefix ?? null,
  cpu_millicores: desired.compute.cpuMillicores,
  memory_mib: desired.compute.memoryMib,
  disk_mib: desired.disk.sizeMib,
  can_sleep: canSleep(desired) ? 1 : 0,
  holds_place: holdsPlace(desired) ? 1 : 0,
})

/** The power of a VM after a change, and its last stop. */
export type PowerAfter = {
  /** The change sets the power, even if it was desired before. */
  readonly isSet: boolean
  /** The generation that last set the power. */
  readonly generation: number
  /** The generation of the last stop. */
  readonly stopAccepted: number
  /** The grace of the last stop; undefined without any. */
  readonly grace: Grace | undefined
}

/** Returns the power after a change that gets this generation. */
export function powerAfter(
  before: VmRecord,
  { desired, repeatsPower, stops, nowMs }: DesiredChange & { readonly desired: Desired },
  generation: number,
): PowerAfter {
  const isSet = repeatsPower === true || stops !== undefined || desired.power !== before.desired.power
  const isStop = isSet && (stops !== undefined || desired.power === 'stopped')
  const untilMs = stops?.graceUntilMs
  const grace = untilMs === undefined ? undefined : { stop: generation, fromMs: nowMs, untilMs }
  return {
    isSet,
    generation: isSet ? generation : before.powerGeneration,
    ...(isStop
      ? { stopAccepted: generation, grace }
      : { stopAccepted: before.stops.accepted, grace: before.stops.grace }),
  }
}
