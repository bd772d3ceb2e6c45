/** A VM whose record cannot be read, for example after a fault of the disk. */
import { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../src/core/ids.ts'

/** Spoils the record of a VM in the store of a directory. */
export function breakRecord(directory: string, id: VmId): void {
  const db = new DatabaseSync(`${directory}/vmhostd.db`)
  db.prepare("UPDATE vms SET labels = '{' WHERE id = ?").run(id)
  db.close()
}
