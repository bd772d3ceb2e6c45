import { mayRunHere } from '../migration/arrival.ts'
import { isHandover } from '../migration/departure.ts'
import { deletionDueMs, hasEnded } from '../vm/exit-policy.ts'
import { mustEnd, owesRebuild } from '../vm/record.ts'
import { isGone } from '../world/world.ts'
import type { NodeName } from '../migration/offer.ts'
import type { VmRecord } from '../vm/record.ts'
import type { DiskState, UnitState } from '../world/world.ts'

/** A VM as it is on the host now: its unit and its disk as the record must see them (core/vm/judge-owner.ts). */
export type FoundVm = {
  readonly unit: UnitState
  readonly disk: DiskState
  /** Whether the pool has its saved guest. */
  readonly isSaved: boolean
  /** The host to which the present records have released it; absent if they have not. */
  readonly movedTo?: NodeName
}

/**
 * The effect on one VM when its record is put back. `ends`: its guest, awake or asleep, is ended. `deletes`: its disk
 * is removed or replaced too. `moved`: its guest may run on another host, and would run here too. `starts`: it has no guest now, and gets one. `lacks`: something of it is missing or belongs to another
 * VM. `fits`: the daemon takes over what is there.
 */
export type Restored = {
  readonly kind: 'ends' | 'deletes' | 'moved' | 'starts' | 'lacks' | 'fits'
  readonly because: string
}

/** Returns what the daemon would do with a record that is put back. */
export function judgeRestored(record: VmRecord, found: FoundVm, nowMs: number): Restored {
  const { unit, disk } = found
  if (unit.kind === 'foreign') return { kind: 'lacks', because: `its unit is left alone: ${unit.because}` }
  if (found.movedTo !== undefined)
    return { kind: 'moved', because: `it has moved to ${found.movedTo} since, and may run there` }
  const guest = guestOf(found)
  const deletes = disk.kind === 'present' ? whyDeleted(record, disk, nowMs) : undefined
  if (deletes !== undefined)
    return { kind: 'deletes', because: `${guest ?? 'it has a disk'}, and ${deletes}` }
  const ends = whyEnded(record)
  if (guest !== undefined && ends !== undefined) return { kind: 'ends', because: `${guest}, and ${ends}` }
  if (disk.kind === 'foreign') return { kind: 'lacks', because: `its disk is left alone: ${disk.because}` }
  if (guest !== undefined) return { kind: 'fits', because: guest }
  if (disk.kind === 'absent' && record.observed.disk !== undefined && !owesRebuild(record))
    return { kind: 'lacks', because: 'its disk is not in the pool: it was deleted since, or has moved away' }
  if (ends === undefined && record.desired.power !== 'stopped')
    return { kind: 'starts', because: `it has no guest now, and the record says ${record.desired.power}` }
  return { kind: 'fits', because: 'it has no guest, and needs none' }
}

/** Returns whether a guest or a disk may be lost, which needs the word of the operator. */
export const losesSomething = ({ kind }: Restored): boolean => kind === 'ends' || kind === 'deletes'

function guestOf({ unit, isSaved }: FoundVm): string | undefined {
  if (!isGone(unit)) return 'its guest runs'
  return isSaved ? 'its guest is asleep' : undefined
}

function whyEnded(record: VmRecord): string | undefined {
  const { desired, departure, arrival } = record
  if (mustEnd(record))
    return desired.power === 'stopped' ? 'the record says stopped' : 'the record owes a stop'
  if (hasEnded(record)) return 'the record says that its guest has ended for good'
  if (departure !== undefined && isHandover(departure)) return `the record hands it over to ${departure.node}`
  if (arrival !== undefined && !mayRunHere(arrival))
    return 'the record says that it is still coming from another host'
  return undefined
}

type PresentDisk = Extract<DiskState, { readonly kind: 'present' }>

function whyDeleted(record: VmRecord, { note }: PresentDisk, nowMs: number): string | undefined {
  const { deleting, departure, desired } = record
  const { rebuild = 0 } = desired.image
  if (deleting) return 'the record is under deletion'
  if (departure?.stage === 'released') return `the record says that it has moved to ${departure.node}`
  if (owesRebuild(record) && (note?.rebuild ?? 0) < rebuild)
    return `the record owes rebuild ${rebuild}, which replaces the disk`
  const dueMs = deletionDueMs(record)
  return dueMs !== undefined && dueMs <= nowMs ? 'the record says that it is deleted by now' : undefined
}
