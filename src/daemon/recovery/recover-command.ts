import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { loadConfig } from '../../config/config.ts'
import { parseVmId } from '../../core/ids.ts'
import { poolIdOf } from '../../host/pool/pool-marker.ts'
import { writeNote } from '../../host/disks/publish-disk.ts'
import { poolPaths } from '../../host/pool/pool-paths.ts'
import { given } from '../../lib/given.ts'
import { recoverHelp } from '../help/recovery-help.ts'
import { newOperationId } from '../../log/log.ts'
import { readBackup } from '../../store/backup/read-backup.ts'
import { Restoring } from '../../store/backup/restoring.ts'
import { databaseIn } from '../../store/database/open-database.ts'
import { Store } from '../../store/store.ts'
import { userIdRangeOf } from '../../store/vm/user-ids.ts'
import { operatorCommand } from '../operator-command.ts'
import { UsageError } from '../usage-error.ts'
import { withRecoveryHost } from './look-at-host.ts'
import { draftRequest, findOrphan, giveRecord, listOrphans, userIdsWithoutRecord } from './recover.ts'
import { sourceFromRequest, sourceFromStore } from './recovery-source.ts'
import { orphanInWords, recoveredInWords } from './words.ts'
import type { Config } from '../../config/config.ts'
import type { RecoverySource } from '../../commands/vm/recover-vm.ts'
import type { VmId } from '../../core/ids.ts'
import type { Found } from './recover.ts'
import type { RecoveryHost } from './look-at-host.ts'

type Options = {
  readonly config: Config
  readonly id?: VmId
  readonly from?: string
  readonly request?: string
  readonly isDry: boolean
}

/** Runs `vmhostd recover`. */
export const recoverCommand = operatorCommand({
  help: recoverHelp,
  options: {
    from: { type: 'string' },
    request: { type: 'string' },
    'dry-run': { type: 'boolean', default: false },
  },
  run: async ({ config, from, request, 'dry-run': isDry }, [name, ...more]) => {
    if (more.length > 0) throw new UsageError('name one VM')
    if (from !== undefined && request !== undefined)
      throw new UsageError('give --from or --request, not both')
    if (name === undefined && (from ?? request) !== undefined) throw new UsageError('name the VM')
    const id = name === undefined ? undefined : parseVmId(name)
    if (name !== undefined && id === undefined) throw new UsageError(`${name} is not a VM id`)
    return recover({ config: loadConfig(config), isDry, ...given({ id, from, request }) })
  },
})

async function recover(options: Options): Promise<number> {
  const { config, id, from, request, isDry } = options
  const changes = id !== undefined && (from ?? request) !== undefined && !isDry
  const { store, end } = changes ? openPresent(config) : openCopy(config)
  try {
    const poolId = store.poolId ?? (await poolIdOf(config.storage.poolDirectory))
    return await withRecoveryHost(config, poolId, async (host) => {
      if (id === undefined) return list(store, host)
      const found = await findOrphan(store, host, id)
      if (!found.ok) throw new Error(`${id}: ${found.error}`)
      if ((from ?? request) === undefined) return draft(found.value)
      const source = sourceOf(options, found.value)
      if (changes && store.poolId === undefined) store.rememberPool(poolId)
      store.reserveUserIds(await userIdsWithoutRecord(store, host))
      const nowMs = Date.now()
      // Before the record: if it is not stored any more, the next try finds a disk of this store.
      if (changes && found.value.joining.kind === 'remark')
        await remark(store, config, found.value, found.value.orphan.createdAtMs ?? nowMs)
      const record = giveRecord(store, found.value, { source, nowMs, operationId: newOperationId() })
      if (!record.ok) throw new Error(`${id}: ${record.error}`)
      for (const line of recoveredInWords(record.value, found.value, source)) console.log(line)
      if (!changes) {
        console.log('\nDry run: nothing was changed.')
        return 0
      }
      await store.flushed()
      console.log('\nThe record is stored. Next: systemctl start vmhostd')
      return 0
    })
  } finally {
    end()
  }
}

/** Makes the disk one of this store. */
async function remark(
  store: Store,
  { storage }: Config,
  { id, orphan }: Found,
  createdAtMs: number,
): Promise<void> {
  const { rootfsSha256, rebuild } = orphan
  const mark = { storeId: store.storeId, createdAtMs }
  await writeNote(poolPaths(storage.poolDirectory), id, { mark, ...given({ rootfsSha256, rebuild }) })
}

async function list(store: Store, host: RecoveryHost): Promise<number> {
  const orphans = await listOrphans(store, host)
  if (orphans.length === 0) console.log('every disk in the pool has a record')
  for (const { id, found } of orphans)
    console.log(found.ok ? orphanInWords(found.value) : `${id}: ${found.error}`)
  return 0
}

function draft(found: Found): number {
  console.error(orphanInWords(found))
  console.log(JSON.stringify(draftRequest(found.orphan), undefined, 2))
  return 0
}

function sourceOf({ config, from, request }: Options, { id, orphan }: Found): RecoverySource {
  if (from === undefined) return sourceFromRequest(request ?? '', config, orphan)
  readBackup(from)
  const copy = copyOf(from, config, 'recover-from.new')
  try {
    return sourceFromStore(copy.store, id, orphan)
  } finally {
    copy.remove()
  }
}

type Opened = { readonly store: Store; readonly end: () => void }

function openPresent(config: Config): Opened {
  mkdirSync(config.stateDirectory, { recursive: true, mode: 0o711 })
  const store = new Store(config.stateDirectory, userIdRangeOf(config.vms), { nowMs: Date.now() })
  return { store, end: () => store.close() }
}

/** Opens a copy of the present records, or no records if there are none. */
function openCopy(config: Config): Opened {
  const present = databaseIn(config.stateDirectory)
  if (existsSync(present)) {
    const copy = copyOf(present, config, 'recover.new')
    return { store: copy.store, end: () => copy.remove() }
  }
  const directory = join(config.stateDirectory, 'recover.new')
  // A run that was killed may have left a copy of records there.
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const store = new Store(directory, userIdRangeOf(config.vms))
  const end = (): void => {
    store.close()
    rmSync(directory, { recursive: true, force: true })
  }
  return { store, end }
}

const copyOf = (path: string, config: Config, name: string): Restoring =>
  new Restoring(
    path,
    { stateDirectory: config.stateDirectory, directory: join(config.stateDirectory, name) },
    userIdRangeOf(config.vms),
  )
