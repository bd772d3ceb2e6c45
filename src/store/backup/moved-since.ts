import { existsSync } from 'node:fs'
import { hasColumn, memberOf } from '../database/columns.ts'
import { databaseIn } from '../database/open-database.ts'
import { readRecords } from '../database/read-records.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { VmId } from '../../core/ids.ts'

/**
 * Moves between hosts by the present records. A VM may have moved too if they do not have it,
 * or its moves cannot be read there.
 */
export type MovedSince = {
  /** VMs that were released to another host, with its name: their guests may run there. */
  readonly to: ReadonlyMap<VmId, string>
  /** VMs that are coming here, with the address of the host that has them: their guests may run there. */
  readonly comingFrom: ReadonlyMap<VmId, string>
  /** VMs that this host alone may run. */
  readonly stayed: ReadonlySet<VmId>
  /** Why nothing is known; absent if the records were read. */
  readonly unreadable?: string
}

/**
 * Reads from the present records of a state directory which VMs have left it. The records may be of any version,
 * and in use.
 */
export function readMovedSince(stateDirectory: string): MovedSince {
  const path = databaseIn(stateDirectory)
  if (!existsSync(path)) return unknown(`${path} is not there`)
  try {
    return readRecords(path, movedIn)
  } catch (error) {
    return unknown(`${path} cannot be read: ${(error as Error).message}`)
  }
}

const unknown = (unreadable: string): MovedSince => ({
  to: new Map(),
  comingFrom: new Map(),
  stayed: new Set(),
  unreadable,
})

function movedIn(db: DatabaseSync): MovedSince {
  // The first versions could not move a VM.
  const orNull = (column: string, expression: string) => (hasColumn(db, 'vms', column) ? expression : 'NULL')
  const hostOf = (column: string, isElsewhere: string, host: string) =>
    orNull(column, `iif(${memberOf(column, 'stage')} ${isElsewhere}, ${memberOf(column, host)}, NULL)`)
  const isReadable = (column: string) => `ifnull(${orNull(column, `json_valid(${column})`)}, 1)`
  const rows = db
    .prepare(
      `SELECT id, ${hostOf('departure', "= 'released'", 'node')} AS node,
         ${hostOf('arrival', "<> 'released'", 'source')} AS source,
         ${isReadable('departure')} AND ${isReadable('arrival')} AS readable
       FROM vms ORDER BY id`,
    )
    .all()
  const [to, comingFrom] = [new Map<VmId, string>(), new Map<VmId, string>()]
  const stayed = new Set<VmId>()
  for (const row of rows) {
    const id = String(row['id']) as VmId
    if (row['node'] !== null) to.set(id, String(row['node']))
    else if (row['source'] !== null) comingFrom.set(id, String(row['source']))
    else if (row['readable'] === 1) stayed.add(id)
  }
  return { to, comingFrom, stayed }
}
