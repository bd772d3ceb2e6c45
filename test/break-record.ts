/** A VM whose record cannot be read, for example after a fault of the disk. */
import { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../src/core/ids.ts'

/** Spoils the record of a VM in the store of a directory. */
export const breakRecord = (directory: string, id: VmId): void => setLabels(directory, id, '{')

/** Makes a record that was spoiled readable again. The VM has no labels then. */
export const mendRecord = (directory: string, id: VmId): void => setLabels(directory, id, '{}')

function setLabels(directory: string, id: VmId, labels: string): void {
  const db = new DatabaseSync(`${directory}/vmhostd.db`)
  db.prepare('UPDATE vms SET labels = ? WHERE id = ?').run(labels, id)
  db.close()
}
