import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../config/limits.ts'
import type { VmId } from '../../core/ids.ts'
import type { NodeName } from '../../core/migration/offer.ts'

/** VMs that were released to another host, with its name: their guests may run there. */
export type Moved = ReadonlyMap<VmId, NodeName>

/**
 * Reads from the present records of a state directory which VMs have left it. The records may be of any version, and in
 * use. Returns undefined if they cannot be read.
 */
export function readMoved(stateDirectory: string): Moved | undefined {
  const path = join(stateDirectory, 'vmhostd.db')
  if (!existsSync(path)) return new Map()
  try {
    const db = new DatabaseSync(path, { readOnly: true, timeout: limits.backupBusyMs })
    try {
      return movedIn(db)
    } finally {
      db.close()
    }
  } catch {
    return undefined
  }
}

function movedIn(db: DatabaseSync): Moved {
  const columns = db.prepare("SELECT name FROM pragma_table_info('vms')").all()
  // The first versions could not move a VM.
  if (!columns.some(({ name }) => name === 'departure')) return new Map()
  const rows = db
    .prepare(
      "SELECT id, departure ->> '$.node' AS node FROM vms WHERE departure ->> '$.stage' = 'released' ORDER BY id",
    )
    .all()
  return new Map(rows.map(({ id, node }) => [String(id) as VmId, String(node) as NodeName]))
}
