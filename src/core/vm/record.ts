import type { FaultCode } from '../errors.ts'
import type { GuestSeen } from '../guest/guest-seen.ts'
import type { Compute, Desired } from '../desired.ts'
import type { Generation, HostIdentity, OperationId, VmId } from '../ids.ts'
import type { MonitorKind } from '../monitor/monitor-kind.ts'
import type { Arrival } from '../migration/arrival.ts'
import type { Departure } from '../migration/departure.ts'
import type { Delivery, PacketFlow } from '../world/network-state.ts'
import type { LastExit } from './last-exit.ts'

export const OBSERVED_STATES = [
  'pending',
  'starting',
  'running',
  'pausing',
  'paused',
  'stopping',
  'stopped',
  'sleeping',
  'waking',
  'migrated',
  'deleting',
  'failed',
] as const
export type ObservedState = (typeof OBSERVED_STATES)[number]

/** Why the observed state makes no progress. Times are milliseconds since the epoch. */
export type Fault = {
  readonly code: FaultCode
  /** The step that failed, or the inspection, e.g. `network.ensure-tap`. */
  readonly step: string
  /** The whole cause chain in one line. */
  readonly message: string
  readonly generation: Generation
  readonly sinceMs: number
  readonly attempt: number
  readonly nextAttemptAtMs: number
}

/** One thing that an inspection found wrong; see `partial-faults.ts`. */
export type PartialFault = Pick<Fault, 'code' | 'step' | 'message'>

/** The condition that a transitional state waits for. */
export type WaitReason =
  | 'the unit to start'
  | 'the unit to stop'
  | 'the monitor to answer'
  | 'the destination'
  | 'late packets'
  | 'the guest to end'
  | 'the source'
  | 'the release'
  | 'the host to start again'
  | 'a turn to wake'
  | 'the end of maintenance'
  | 'memory'
  | 'the image'

/** The result of the last pass, as it is shown. */
export type Observed = {
  readonly state: ObservedState
  /** When the state began. */
  readonly sinceMs: number
  /** The condition that a transitional state waits for. */
  readonly waitingFor?: WaitReason
  /** Present while the VM waits for memory. */
  readonly memoryQueue?: MemoryQueuePlace
  readonly fault?: Fault
  /** Absent if the last look found nothing wrong. */
  readonly partialFaults?: readonly PartialFault[]
  /** The shape the VM runs with now; absent while it does not run. */
  readonly compute?: Compute
  /** Absent until the disk exists; the guest's view of it while there is a guest. */
  readonly disk?: {
    readonly sizeMib: number
    readonly guestSizeMib?: number
    /** The last look did not find the disk. The size comes from an earlier look and is not shown. */
    readonly unseen?: true
  }
  /** Number of the last rebuild whose disk was seen; absent: none. */
  readonly rebuild?: number
  /** The last change of kernel and initrd whose images were seen in the pool, fit to boot from; absent: none. */
  readonly bootRevision?: number
  readonly startedAtMs?: number
  /**
   * Time of the last packet that counted as traffic; updated in steps of `limits.lastTrafficStepMs` while the VM runs.
   */
  readonly lastTrafficAtMs?: number
  /** The saved state in the pool from which the guest can wake. */
  readonly savedState?: { readonly savedAtMs: number; readonly sizeMib: number; readonly memoryMib: number }
  readonly lastWake?: LastWake
  /** Number of completed wakes since then; absent before the first. */
  readonly wakes?: { readonly count: number; readonly sinceMs: number }
  /** When the network device was first seen, whose counters began with it; absent without a device. */
  readonly deviceSinceMs?: number
  readonly lastStop?: LastStop
  /** Number of sleeps in a row that traffic ended soon after they began. */
  readonly shortSleeps?: number
  /** Number of starts that followed an end of the guest by itself; absent: 0. */
  readonly restarts?: number
  readonly lastExit?: LastExit
  /** The power generation under which the guest ended for good. A newer request for power starts it again. */
  readonly endedAtPower?: Generation
}

/** The place of a VM that waits for memory; 1 is the next. `missingMib`: what the host lacks for it alone. */
export type MemoryQueuePlace = {
  readonly place: number
  readonly missingMib: number
  readonly sinceMs: number
}

/** A start that was seen to succeed. If it is absent while the unit is gone, no guest was lost and the VM can start. */
export type Launch = {
  /** Id of the host's boot: a reboot of the host is not an exit of the VM. */
  readonly bootId: string
  readonly atMs: number
  readonly compute: Compute
  /** Offset in the console's session from which on the output is of this start; absent if no session was there. */
  readonly consoleFrom?: number
  /**
   * An end of the unit is not an exit. Set and flushed before the daemon ends the unit for a move without memory, and
   * set in records that are put back. Removed when a look shows that the unit stays.
   */
  readonly endsQuietly?: true
}

/** Labels by which a controller finds its VMs, and a guard against deletion. They do not affect the host. */
export type Metadata = {
  readonly labels: Readonly<Record<string, string>>
  readonly protected: boolean
}

/**
 * Generations of stops; 0 if there is none. A creation as `stopped` counts as a stop. An accepted stop that is not
 * carried out yet outlives any later power.
 */
export type Stops = {
  /** Generation of the newest accepted stop. */
  readonly accepted: number
  /** Generation up to which a look found nothing left of the guest: no unit, no console, no saved state. */
  readonly carriedOut: number
  /** Present while the newest accepted stop lets the guest end by itself. */
  readonly grace?: Grace
}

/** Time in which a guest that must stop may end by itself. */
export type Grace = {
  /** Generation of the stop. */
  readonly stop: number
  /** When the stop was accepted. */
  readonly fromMs: number
  /** The guest is stopped hard then. */
  readonly untilMs: number
  /** When the guest was last asked to end; absent if it was not asked yet. */
  readonly askedAtMs?: number
}

/**
 * How a guest was stopped. `graceful`: it ended by itself after it was asked. `deadline`: its grace was over. `hard`:
 * without grace.
 */
export type StopKind = 'hard' | 'graceful' | 'deadline'

/** The last stop that was carried out. `generation` is that of the request; absent: the host shut down. */
export type LastStop = { readonly atMs: number; readonly kind: StopKind; readonly generation?: number }

export type VmRecord = {
  readonly id: VmId
  /** Allocated with the record, and recorded before the objects exist. */
  readonly host: HostIdentity
  /** Chosen at creation; it never changes, also not when the VM moves. */
  readonly monitor: MonitorKind
  readonly desired: Desired
  /** For the controller's own use; the host ignores it. */
  readonly metadata: Metadata
  /** True once deletion was requested; the record is removed when the host is clean. */
  readonly deleting: boolean
  readonly generations: { readonly desired: Generation; readonly observed: Generation }
  /** The generation that set the present power; 1 is the creation. */
  readonly powerGeneration: Generation
  readonly stops: Stops
  /** The mutation that set the present desired generation. */
  readonly operationId: OperationId
  readonly observed: Observed
  readonly launch?: Launch
  readonly wake?: PendingWake
  /** Until then the guest does not fall asleep, whatever its traffic. Milliseconds since the epoch. */
  readonly keepAwakeUntilMs?: number
  /** The findings of looks into the guest since its start; absent if it showed nothing. */
  readonly guest?: GuestSeen
  /** The newest migration of the VM from this host; it stays when it has ended. */
  readonly departure?: Departure
  /** How the VM came to this host, or comes; absent if it was created here. */
  readonly arrival?: Arrival
  /**
   * Set before the guest is saved, until a look finds nothing saved. It stays for as long as the pool cannot be
   * inspected.
   */
  readonly mayBeSaved?: true
  /** While it had no guest, the VM lent its memory to others. Its next start or wake needs it back first. */
  readonly memoryLent?: true
  /** Since when it waits to have its memory back. Milliseconds since the epoch. */
  readonly memoryWantedAtMs?: number
  /** Number of exits in a row, each soon after its start; sets the restart back-off. */
  readonly exitStreak: number
  /** Raised by every visible change; the ETag. */
  readonly revision: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
}

/** Returns when the VM came to this host or was created here; undefined while it comes. */
export const hereSinceMs = ({ arrival, createdAtMs }: Pick<VmRecord, 'arrival' | 'createdAtMs'>) =>
  arrival === undefined ? createdAtMs : arrival.releasedAtMs

/** Returns the completed wakes of a VM; undefined while it comes, and if it woke before wakes were counted. */
export function wakesOf(record: VmRecord): Observed['wakes'] {
  const { wakes, lastWake } = record.observed
  const sinceMs = hereSinceMs(record)
  if (sinceMs === undefined || (wakes === undefined && lastWake !== undefined)) return undefined
  return wakes ?? { count: 0, sinceMs }
}

/** A short state of a VM, without its full record. */
export type VmSummary = {
  readonly id: VmId
  readonly generations: { readonly desired: Generation; readonly observed: Generation }
  readonly state: ObservedState
  readonly monitor: MonitorKind
  readonly memoryMib: number
} & Pick<Observed, 'fault' | 'partialFaults'>

/** Changes that a pass writes back. Absent members stay as they are; `null` clears the launch or the wake. */
export type Progress = {
  readonly observed: Observed
  readonly observedGeneration?: Generation
  readonly launch?: Launch | null
  /** Raised by a look that finds nothing left of the guest. */
  readonly stopCarriedOut?: number
  /** The guest was asked to end, for the stop of this generation. */
  readonly askedToEnd?: { readonly stop: number; readonly atMs: number }
  /** The stop of this generation has no grace any more. */
  readonly graceOver?: number
  readonly wake?: PendingWake | null
  /** Set before a save, and flushed then. */
  readonly mayBeSaved?: boolean
  readonly exitStreak?: number
  readonly nowMs: number
}

/** The part of a record that a request may change while a pass acts. */
export type Wanted = Pick<VmRecord, 'wake'> & {
  readonly generations: Pick<VmRecord['generations'], 'desired'>
}

/** Returns whether a change, or a request for the guest, came since the record was read. */
export const isOvertaken = (read: Wanted, now: Wanted): boolean =>
  now.generations.desired !== read.generations.desired || (read.wake === undefined && now.wake !== undefined)

/**
 * Returns whether an accepted stop is not carried out yet. It is carried out before any later start, whatever power is
 * desired meanwhile.
 */
export const owesStop = ({ stops }: Pick<VmRecord, 'stops'>): boolean => stops.accepted > stops.carriedOut

/** Returns whether the disk, as last seen, must still grow. */
export const owesGrowth = ({
  desired,
  observed: { disk },
}: Pick<VmRecord, 'desired' | 'observed'>): boolean =>
  disk !== undefined && disk.sizeMib < desired.disk.sizeMib

/**
 * Returns whether a rebuild was accepted whose disk was not seen yet. Until then the VM may have the old disk, which is
 * promised its room beside the new one.
 */
export const owesRebuild = ({
  desired: { image },
  observed: { rebuild = 0 },
}: {
  readonly desired: Pick<Desired, 'image'>
  readonly observed: Pick<Observed, 'rebuild'>
}): boolean => (image.rebuild ?? 0) > rebuild

/** Returns whether kernel or initrd were changed, and their images were not seen in the pool yet. */
export const owesBootImages = ({
  desired: { image },
  observed,
}: Pick<VmRecord, 'desired' | 'observed'>): boolean =>
  (image.bootRevision ?? 0) > (observed.bootRevision ?? 0)

/** Returns whether the guest was started in this boot and may be there. One that was seen asleep has no unit. */
export const isLaunched = (
  { observed: { state }, launch }: Pick<VmRecord, 'observed' | 'launch'>,
  bootId: string,
): boolean => state !== 'sleeping' && launch?.bootId === bootId

/** Returns whether a guest that may exist now must end. */
export const mustEnd = (record: Pick<VmRecord, 'stops' | 'deleting' | 'desired'>): boolean =>
  record.deleting || record.desired.power === 'stopped' || owesStop(record)

/**
 * The reason to wake a sleeping VM: traffic for it, a request for power or to keep it awake, an ssh console, an idle
 * timeout of 0, a change that needs the guest, a handover that was withdrawn, its release to this host, a boot of the
 * host whose shutdown ended the guest, or the end of the maintenance for which it was saved.
 */
export const WAKE_REASONS = [
  'traffic',
  'power',
  'console',
  'keep_awake',
  'sleep_disabled',
  'withdrawn',
  'host_booted',
  'maintenance',
  'arrived',
  'change',
] as const
export type WakeReason = (typeof WAKE_REASONS)[number]

/** A wake that was requested or has begun, and has not ended. It is on record, so it outlives the daemon. */
export type PendingWake = {
  readonly reason: WakeReason
  readonly atMs: number
  /** The packet that wants the guest, if that is the reason and the packet is known. */
  readonly packet?: PacketFlow
  /** When the restored guest was saved. Absent: the wake was requested, and has not begun. */
  readonly savedAtMs?: number
  /** Set before a unit is started to restore the guest. Until then, only the unit that saved the guest can have it. */
  readonly restores?: true
  /** The frames that were delivered to the guest, and when. */
  readonly delivery?: Delivery & { readonly atMs: number }
}

/** Returns whether a wake has begun, and was not only requested. */
export const hasBegun = (
  wake: PendingWake | undefined,
): wake is PendingWake & { readonly savedAtMs: number } => wake?.savedAtMs !== undefined

/** The last wake that has ended. */
export type LastWake = Pick<PendingWake, 'reason' | 'atMs' | 'packet'> & {
  /** From `atMs` until the guest ran and had its held frames. */
  readonly durationMs: number
  /** Packets that came during the wake and were delivered to the guest. */
  readonly heldPackets: number
  /** Packets that came during the wake and were dropped, because they exceeded the bounds of held frames. */
  readonly droppedPackets: number
}
