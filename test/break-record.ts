/** A VM whose record cannot be read, for example after a fault of the disk. */
import { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../src/core/ids.ts'

/** Spoils the record of a VM in the store of a directory. */
export const breakRecord = (directory: string, id: VmId): void => set(directory, id, { labels: '{' })

/** Spoils what the record of a VM says about its way to this host. */
export const breakArrival = (directory: string, id: VmId): void => set(directory, id, { arrival: '{' })

/** Makes a record that was spoiled readable again. The VM has no labels then. */
export const mendRecord = (directory: string, id: VmId): void => set(directory, id, { labels: '{}' })

function set(directory: string, id: VmId, { labels, arrival }: Columns): void {
  const db = new DatabaseSync(`${directory}/vmhostd.db`)
  db.prepare('UPDATE vms SET labels = coalesce(?, labels), arrival = coalesce(?, arrival) WHERE id = ?').run(
    labels ?? null,
    arrival ?? null,
    id,
  )
  db.close()
}

type Columns = { readonly labels?: string; readonly arrival?: string }
