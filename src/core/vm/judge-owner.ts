import { owesRebuild } from './record.ts'
import { whyForeign } from '../world/world.ts'
import type { DiskState, FoundNote, UnitState } from '../world/world.ts'
import type { VmRecord } from './record.ts'

/** Returns the unit as this VM must see it: a unit that carries the mark of another VM is `foreign`. */
export function judgeUnit(unit: UnitState, record: VmRecord, storeId: string): UnitState {
  if (unit.kind !== 'active' && unit.kind !== 'activating') return unit
  const because = whyForeign(unit.mark, record, storeId)
  return because === undefined ? unit : { kind: 'foreign', because }
}

/**
 * Returns the disk as this VM must see it. A disk without a note was made by an older daemon, or a person put it there.
 * It belongs to this VM if the VM was seen with a disk before; otherwise it is `foreign`.
 */
export function judgeDisk(disk: DiskState, record: VmRecord, storeId: string): DiskState {
  if (disk.kind !== 'present') return disk
  const { note } = disk
  if (note === undefined) {
    const because = `it has no note of whose it is, and VM ${record.id} never had a disk`
    return record.observed.disk === undefined ? { kind: 'foreign', because } : disk
  }
  const foreign = whyForeign(note.mark, record, storeId)
  if (foreign !== undefined) return { kind: 'foreign', because: foreign }
  const other = whyOtherDisk(note, record)
  return other === undefined ? disk : { kind: 'foreign', because: other, ofRebuild: note.rebuild ?? 0 }
}

/** Returns why a disk of this VM is not the one of its record: the record or the disk is from a backup. */
function whyOtherDisk({ rebuild: found = 0, rootfsSha256: madeOf }: FoundNote, record: VmRecord) {
  const { rootfsSha256, rebuild = 0 } = record.desired.image
  // The old disk is the VM's until the rebuild is done.
  if (found < rebuild && owesRebuild(record)) return undefined
  if (found !== rebuild)
    return `it is of rebuild ${found}, and the record of VM ${record.id} of rebuild ${rebuild}`
  if (madeOf === undefined || madeOf === rootfsSha256) return undefined
  return `it was made of image ${madeOf}, and VM ${record.id} is made of ${rootfsSha256}`
}
