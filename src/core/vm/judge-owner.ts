import { owesRebuild } from './record.ts'
import { whyForeign } from '../world/world.ts'
import type { DiskState, PresentDisk, UnitState } from '../world/world.ts'
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
  const because = whyForeignDisk(disk, record, storeId)
  return because === undefined ? disk : { kind: 'foreign', because }
}

function whyForeignDisk({ note }: PresentDisk, record: VmRecord, storeId: string): string | undefined {
  if (note === undefined) {
    return record.observed.disk === undefined
      ? `it has no note of whose it is, and VM ${record.id} never had a disk`
      : undefined
  }
  const { rootfsSha256, rebuild = 0 } = record.desired.image
  const { rebuild: found = 0 } = note
  const foreign = whyForeign(note.mark, record, storeId)
  // The old disk is the VM's until the rebuild is done.
  if (foreign !== undefined || (found < rebuild && owesRebuild(record))) return foreign
  if (found !== rebuild)
    return `it is of rebuild ${found}, and the disk of VM ${record.id} of rebuild ${rebuild}`
  if (note.rootfsSha256 === undefined || note.rootfsSha256 === rootfsSha256) return undefined
  return `it was made of image ${note.rootfsSha256}, and VM ${record.id} is made of ${rootfsSha256}`
}
