import { isDiskMissing } from '../plan/plan-storage.ts'
import { isHandover } from '../migration/departure.ts'
import { deletionDueMs, hasEnded } from '../vm/exit-policy.ts'
import { isNotReleased } from '../vm/leaving.ts'
import { mustEnd, owesRebuild } from '../vm/record.ts'
import { isGone } from '../world/world.ts'
import type { VmRecord } from '../vm/record.ts'
import type { DiskState, PresentDisk, UnitState } from '../world/world.ts'

/** A VM as it is on the host now: its unit and its disk as the record must see them (core/vm/judge-owner.ts). */
export type FoundVm = {
  readonly unit: UnitState
  readonly disk: DiskState
  /** Whether the pool has its saved guest. */
  readonly isSaved: boolean
  /** The host that may run it, as the present records say; absent if that is this one. */
  readonly movedTo?: string
  /** Set if the pool is gone for good, with the disk that it had. */
  readonly isPoolLost?: true
  /** Set if nothing says whether it has moved to another host: the present records are lost, or do not have it. */
  readonly mayHaveMoved?: true
}

/**
 * The effect on one VM when its record is put back. `ends`: its guest, awake or asleep, is ended. `deletes`: its disk
 * is removed or replaced too. `moved`: its guest may run on another host, and would run here too. `unsure`: the same,
 * if it has moved, which is not known. `starts`: it has no guest now, and gets one. `lacks`: something of it is missing
 * or belongs to another VM. `fits`: the daemon takes over what is there.
 */
export type Restored = {
  readonly kind: 'ends' | 'deletes' | 'moved' | 'unsure' | 'starts' | 'lacks' | 'fits'
  readonly because: string
}

/** Returns what the daemon would do with a record that is put back. */
export function judgeRestored(record: VmRecord, found: FoundVm, nowMs: number): Restored {
  const { unit } = found
  if (unit.kind === 'foreign') return { kind: 'lacks', because: `its unit is left alone: ${unit.because}` }
  if (found.movedTo !== undefined)
    return { kind: 'moved', because: `it has moved to ${found.movedTo} since, and may run there` }
  const judged = judgeStayed(record, found, nowMs)
  // A guest that runs here was not released: that happens once its unit has ended.
  const isDoubtful = found.mayHaveMoved === true && isGone(unit) && judged.kind !== 'lacks'
  return isDoubtful && mayRunAgain(record, nowMs)
    ? { kind: 'unsure', because: `${guestOf(found) ?? NO_GUEST} here, and may run on another host by now` }
    : judged
}

const NO_GUEST = 'it has no guest'
const NO_DISK = 'its disk is not in the pool: it was deleted since, or has moved away'
const LOST_DISK = 'its disk is lost with the pool'

/** Judges the record of a VM that did not move. */
function judgeStayed(record: VmRecord, found: FoundVm, nowMs: number): Restored {
  const { disk } = found
  const guest = guestOf(found)
  const deletes = disk.kind === 'present' ? whyDeleted(record, disk, nowMs) : undefined
  if (deletes !== undefined)
    return { kind: 'deletes', because: `${guest ?? 'it has a disk'}, and ${deletes}` }
  const ends = whyEnded(record)
  if (guest !== undefined && ends !== undefined) return { kind: 'ends', because: `${guest}, and ${ends}` }
  if (disk.kind === 'foreign') return { kind: 'lacks', because: whyAlone(disk.because, guest) }
  if (guest !== undefined) return { kind: 'fits', because: `${guest}${longerDisk(record, disk)}` }
  if (isDiskMissing(record, { disk }))
    return { kind: 'lacks', because: found.isPoolLost === true ? LOST_DISK : NO_DISK }
  if (ends === undefined && record.desired.power !== 'stopped')
    return { kind: 'starts', because: `${NO_GUEST} now, and the record says ${record.desired.power}` }
  return { kind: 'fits', because: `${NO_GUEST}, and needs none${longerDisk(record, disk)}` }
}

/** Says how to make a record fit a disk that has grown since, or nothing. Its snapshots would fail. */
function longerDisk({ id, desired }: VmRecord, disk: DiskState): string {
  if (disk.kind !== 'present' || disk.sizeMib <= desired.disk.sizeMib) return ''
  return `; its disk has ${disk.sizeMib} MiB, and the record says ${desired.disk.sizeMib}: then vmhostctl vm resize ${id}`
}

/** Returns why a disk is left alone. With a guest it is better to leave out the record, which fits neither. */
const whyAlone = (because: string, guest: string | undefined): string =>
  guest === undefined
    ? `its disk is left alone: ${because}`
    : `${guest}, and its disk is left alone: ${because}; better leave it out (--leave-out), then vmhostd recover`

/** Returns whether a guest or a disk may be lost, which needs the word of the operator. */
export const losesSomething = ({ kind }: Restored): boolean => kind === 'ends' || kind === 'deletes'

function guestOf({ unit, isSaved }: FoundVm): string | undefined {
  if (!isGone(unit)) return 'its guest runs'
  return isSaved ? 'its guest is asleep' : undefined
}

function whyEnded(record: VmRecord): string | undefined {
  const { desired, departure } = record
  if (mustEnd(record))
    return desired.power === 'stopped' ? 'the record says stopped' : 'the record owes a stop'
  if (hasEnded(record)) return 'the record says that its guest has ended for good'
  if (departure !== undefined && isHandover(departure)) return `the record hands it over to ${departure.node}`
  if (isNotReleased(record)) return 'the record says that it is still coming from another host'
  return undefined
}

/**
 * Returns whether the daemon may start or wake the guest, now or after a stop,
 * a rebuild or a handover that the record has under way.
 */
const mayRunAgain = (record: VmRecord, nowMs: number): boolean =>
  record.desired.power !== 'stopped' && !hasEnded(record) && whyRemoved(record, nowMs) === undefined

function whyDeleted(record: VmRecord, { note }: PresentDisk, nowMs: number): string | undefined {
  const { rebuild = 0 } = record.desired.image
  if (owesRebuild(record) && (note?.rebuild ?? 0) < rebuild)
    return `the record owes rebuild ${rebuild}, which replaces the disk`
  return whyRemoved(record, nowMs) ?? whyNeverCame(record)
}

/**
 * Returns why the disk of a VM may be removed because its record says that it did not come. A disk is published only
 * when all of it is here, so the record is older. The source refuses a VM that it has released,
 * or does not know any more.
 */
function whyNeverCame({ arrival }: VmRecord): string | undefined {
  if (arrival?.stage === 'pulling')
    return 'the record is from before it came from another host, which may refuse it now; then its disk is removed'
  return arrival?.stage === 'refused'
    ? 'the record says that it stays at another host, so its disk here is removed'
    : undefined
}

function whyRemoved(record: VmRecord, nowMs: number): string | undefined {
  const { deleting, departure } = record
  if (deleting) return 'the record is under deletion'
  if (departure?.stage === 'released') return `the record says that it has moved to ${departure.node}`
  const dueMs = deletionDueMs(record)
  return dueMs !== undefined && dueMs <= nowMs ? 'the record says that it is deleted by now' : undefined
}
