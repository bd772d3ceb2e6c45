import { readdirSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'
import { given } from '../../lib/given.ts'
import { databaseIn } from '../../store/database/open-database.ts'
import { identityAt } from '../../store/database/open-files.ts'
import { openRecordsIn } from '../../store/database/schema-copies.ts'
import type { ServiceUnit } from '../../host/systemd/own-unit.ts'
import type { DaemonFact } from '../../core/doctor/host-facts.ts'

/** Reads what the daemon of a unit does. Throws HostFault, or why its open files cannot be seen. */
export async function readDaemonFact(unit: ServiceUnit, stateDirectory: string): Promise<DaemonFact> {
  const [[activeState], [mainPid]] = await Promise.all([
    unit.properties('Unit', 'ActiveState'),
    unit.properties('Service', 'MainPID'),
  ])
  // A daemon that is starting may not have opened its records.
  const displaced =
    activeState === 'active' ? displacedRecords(Number(mainPid), databaseIn(stateDirectory)) : undefined
  if (displaced === undefined) return {}
  return { displaced: { name: displaced, ...given({ copy: openRecordsIn(stateDirectory)[0] }) } }
}

/**
 * Returns the name of a file of a database that a process has open, and that is not at its path any more; undefined if
 * all are. Throws if the files of the process cannot be seen.
 */
export function displacedRecords(pid: number, database: string): string | undefined {
  const open = openFilesOf(pid)
  const found = ['', '-wal', '-shm'].find((end) => {
    const path = `${database}${end}`
    const known = open.filter(({ name }) => name === basename(path))
    const isThere = known.some(({ identity }) => identity === identityAt(path))
    // Its log and the index of that may not be open yet; the database is, unless another name shows that it was moved.
    return !isThere && (end === '' || known.length > 0)
  })
  return found === undefined ? undefined : basename(`${database}${found}`)
}

type OpenFile = { readonly name: string; readonly identity: string | undefined }

function openFilesOf(pid: number): readonly OpenFile[] {
  const directory = `/proc/${pid}/fd`
  return readdirSync(directory).flatMap((fd) => {
    const path = `${directory}/${fd}`
    try {
      const name = basename(readlinkSync(path)).replace(/ \(deleted\)$/, '')
      return name.startsWith('vmhostd.db') ? [{ name, identity: identityAt(path) }] : []
    } catch {
      // It was closed meanwhile.
      return []
    }
  })
}
