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
  const [[activeState, subState, fileState], [mainPid]] = await Promise.all([
    unit.properties('Unit', 'ActiveState', 'SubState', 'UnitFileState'),
    unit.properties('Service', 'MainPID'),
  ])
  const state = stateOf(String(activeState), String(subState))
  const startsAtBoot = !NOT_AT_BOOT.has(String(fileState))
  // A daemon that is starting may not have opened its records.
  const displaced =
    state === 'running' ? displacedRecords(Number(mainPid), databaseIn(stateDirectory)) : undefined
  if (displaced === undefined) return { state, startsAtBoot }
  const copy = openRecordsIn(stateDirectory)[0]
  return { state, startsAtBoot, displaced: { name: displaced, ...given({ copy }) } }
}

/** Values of UnitFileState with which nothing starts a unit at a boot (org.freedesktop.systemd1(5)). */
const NOT_AT_BOOT: ReadonlySet<string> = new Set([
  'disabled',
  'enabled-runtime',
  'linked',
  'linked-runtime',
  'masked',
  'masked-runtime',
])

function stateOf(activeState: string, subState: string): DaemonFact['state'] {
  if (activeState === 'failed' || subState.startsWith('auto-restart')) return 'failed'
  if (activeState === 'activating') return 'starting'
  return ['inactive', 'deactivating', 'maintenance'].includes(activeState) ? 'stopped' : 'running'
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
