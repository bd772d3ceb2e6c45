import { limits } from '../../config/limits.ts'
import { given } from '../../lib/given.ts'
import { makingDrift } from '../network/tap.ts'
import { areBootImagesReady } from '../plan/plan-storage.ts'
import { watchedOf } from '../world/world.ts'
import type { Compute } from '../desired.ts'
import type { MonitorCapabilities } from '../monitor/machine-spec.ts'
import type { Fault, Observed, ObservedState, PartialFault, VmRecord } from '../vm/record.ts'
import type { World } from '../world/world.ts'

/** A look at a VM: its record, what was seen, and all that is wrong. */
export type Seen = {
  readonly record: VmRecord
  readonly world: World
  readonly found: readonly PartialFault[]
  readonly capabilities: MonitorCapabilities
  readonly nowMs: number
}

/**
 * Returns what a record shows in this state after a look. The fault stays at least until the VM is settled or waits for
 * others, and that of an arrival until its source answers.
 */
export function observedAfter(
  { record, world, found, capabilities, nowMs }: Seen,
  state: ObservedState,
): Observed {
  const { state: before, sinceMs } = record.observed
  const live = world.unit.known && world.unit.value.kind === 'active' ? world.unit.value : undefined
  const disk = observedDisk(record, world)
  const compute = computeOf(record)
  const began = state !== before
  return {
    state,
    sinceMs: began ? nowMs : sinceMs,
    ...given({
      fault: lastingFault(record),
      partialFaults: found.length === 0 ? undefined : found,
      compute: live && compute,
      disk,
      rebuild: observedRebuild(record, world),
      bootRevision: observedBoot(record, world, capabilities),
      startedAtMs: world.unit.known ? live?.startedAtMs : record.observed.startedAtMs,
      deviceSinceMs: deviceSinceMs(record, world, nowMs),
    }),
    ...sleepMembers(record, world, began),
    ...exitMembers(record),
  }
}

/** A VM that comes is settled only at its release, which may be hours after its source answered again. */
function lastingFault({ arrival, observed: { fault } }: VmRecord): Fault | undefined {
  const isOver = arrival !== undefined && arrival.trouble === undefined && arrival.stage !== 'refused'
  return isOver && fault?.step === 'arrival.pull' ? undefined : fault
}

const exitMembers = ({
  observed: { restarts, lastExit, endedAtPower },
}: VmRecord): Pick<Observed, 'restarts' | 'lastExit' | 'endedAtPower'> =>
  given({ restarts, lastExit, endedAtPower })

type SleepMembers = Pick<
  Observed,
  'lastTrafficAtMs' | 'savedState' | 'lastWake' | 'wakes' | 'lastStop' | 'shortSleeps'
>

/**
 * Returns since when the device is there. While that cannot be seen, it is as before. A device that must be made again
 * does not count: the one that comes in its place counts from 0.
 */
function deviceSinceMs({ observed, host }: VmRecord, { tap }: World, nowMs: number): number | undefined {
  if (!tap.known) return observed.deviceSinceMs
  const stays = tap.value.kind === 'present' && makingDrift(host, tap.value.facts).length === 0
  return stays ? (observed.deviceSinceMs ?? nowMs) : undefined
}

function sleepMembers(record: VmRecord, world: World, stateBegan: boolean): SleepMembers {
  const { lastWake, wakes, lastStop, shortSleeps = 0 } = record.observed
  const lastTrafficAtMs = observedTraffic(record, world, stateBegan)
  const savedState = observedSaved(record, world)
  const row = shortSleeps === 0 || endsRow(record) ? undefined : shortSleeps
  return given({ lastTrafficAtMs, savedState, lastWake, wakes, lastStop, shortSleeps: row })
}

/** Returns whether a stop, or a disabled sleep, ends the row of short sleeps. */
const endsRow = ({ desired }: VmRecord): boolean =>
  desired.power === 'stopped' || desired.compute.sleepAfterIdleSeconds === 0

/** Updates the time of the last traffic in steps; otherwise each packet of a busy guest would raise the revision. */
function observedTraffic(record: VmRecord, world: World, stateBegan: boolean): number | undefined {
  const shown = record.observed.lastTrafficAtMs
  const seen = watchedOf(world)?.lastTrafficAtMs
  if (seen === undefined || shown === undefined) return seen ?? shown
  return stateBegan || Math.abs(seen - shown) >= limits.lastTrafficStepMs ? seen : shown
}

/** Returns the saved state to show. While it is unusable or cannot be inspected, it is shown as before. */
function observedSaved(record: VmRecord, { saved }: World): Observed['savedState'] {
  if (!saved.known || saved.value.kind === 'unusable') return record.observed.savedState
  if (saved.value.kind !== 'present') return undefined
  const { savedAtMs, sizeMib, memoryMib } = saved.value
  return { savedAtMs, sizeMib, memoryMib }
}

/** Returns what the guest was started with. Only the daemon uses the rest, so a change of it holds at once. */
function computeOf({ launch, desired }: VmRecord): Compute | undefined {
  if (launch === undefined) return undefined
  const { cpuMillicores, memoryMib } = launch.compute
  return { ...desired.compute, cpuMillicores, memoryMib }
}

/**
 * Returns the disk to show. A disk that was seen once stays on record until its VM is deleted. If it is missing, that
 * is a fault and never a reason to make another.
 */
function observedDisk(record: VmRecord, { storage, monitor }: World): Observed['disk'] {
  const seen = storage.known && storage.value.disk.kind === 'present' ? storage.value.disk : undefined
  const sizeMib = seen?.sizeMib ?? record.observed.disk?.sizeMib
  if (sizeMib === undefined) return undefined
  const guest = monitor.known && 'disk' in monitor.value ? { guestSizeMib: monitor.value.disk.sizeMib } : {}
  return { sizeMib, ...guest, ...(seen === undefined ? { unseen: true } : {}) }
}

/**
 * Returns the rebuild that made the disk. One that was seen stays on record. That of a disk which is newer than the
 * record counts too: the next rebuild must have a higher number, or this disk would be taken for its result.
 */
function observedRebuild({ observed: { rebuild } }: VmRecord, { storage }: World): number | undefined {
  if (!storage.known) return rebuild
  const { disk } = storage.value
  if (disk.kind === 'present') return disk.note?.rebuild ?? rebuild
  const isNewer = disk.kind === 'foreign' && (disk.ofRebuild ?? 0) > (rebuild ?? 0)
  return isNewer ? disk.ofRebuild : rebuild
}

/** Returns the last change of kernel and initrd that is done. */
function observedBoot(
  record: VmRecord,
  { storage }: World,
  capabilities: MonitorCapabilities,
): number | undefined {
  const { desired, observed: before } = record
  const isReady = storage.known && areBootImagesReady(record, storage.value, capabilities)
  return isReady ? desired.image.bootRevision : before.bootRevision
}
