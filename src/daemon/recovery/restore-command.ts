import { existsSync, mkdirSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { loadConfig, parseConfig } from '../../config/config.ts'
import { parseVmId } from '../../core/ids.ts'
import { restoreHelp } from '../help/recovery-help.ts'
import { readBackup } from '../../store/backup/read-backup.ts'
import { Restoring, UnflushedRecords } from '../../store/backup/restoring.ts'
import { readMovedSince } from '../../store/backup/moved-since.ts'
import { operatorCommand } from '../operator-command.ts'
import { UsageError } from '../usage-error.ts'
import { putFilesBack } from './kept-files.ts'
import { checkPool, withRecoveryHost } from './look-at-host.ts'
import { compareWithHost } from './restore.ts'
import { aboutInWords, filesInWords, maintenanceInWords, outlookInWords, refusalsInWords } from './words.ts'
import { userIdRangeOf } from '../../store/vm/user-ids.ts'
import type { Config } from '../../config/config.ts'
import type { VmId } from '../../core/ids.ts'
import type { BackupContent } from '../../store/backup/read-backup.ts'
import type { MovedSince } from '../../store/backup/moved-since.ts'
import type { Outlook, Words } from './restore.ts'

type Options = {
  readonly file: string
  readonly configPath: string
  readonly isDry: boolean
  readonly words: Words
}

/** Runs `vmhostd restore`. */
export const restoreCommand = operatorCommand({
  help: restoreHelp,
  options: {
    'dry-run': { type: 'boolean', default: false },
    end: { type: 'string', multiple: true },
    'leave-out': { type: 'string', multiple: true },
    'none-moved': { type: 'boolean', default: false },
    'pool-lost': { type: 'boolean', default: false },
  },
  run: async (values, [file, ...more]) => {
    if (file === undefined || more.length > 0) throw new UsageError('name one file')
    return restore({
      file,
      configPath: values.config,
      isDry: values['dry-run'],
      words: {
        end: (values.end ?? []).map(idOf),
        leaveOut: (values['leave-out'] ?? []).map(idOf),
        noneMoved: values['none-moved'],
        poolLost: values['pool-lost'],
      },
    })
  },
})

function idOf(text: string): VmId {
  const id = parseVmId(text)
  if (id === undefined) throw new UsageError(`${text} is not a VM id`)
  return id
}

async function restore(options: Options): Promise<number> {
  const { file, configPath, isDry } = options
  const content = readBackup(file)
  const config = configOf(content, configPath)
  const { stateDirectory, vms } = config
  let restoring: Restoring | undefined
  try {
    const { isRefused } = await orNothing(options, stateDirectory, () => {
      mkdirSync(stateDirectory, { recursive: true, mode: 0o711 })
      // A dry run may come while records are put back.
      const directory = join(stateDirectory, isDry ? 'restore-dry.new' : 'restore.new')
      // From here on no daemon changes what is compared.
      restoring = new Restoring(file, { stateDirectory, directory, locks: !isDry }, userIdRangeOf(vms))
      return putRecordsBack(restoring, options, { content, config })
    })
    if (isRefused && !isDry) return 1
    const files = putFilesBack(content.files, { configPath, config, isDry })
    print(filesInWords(files, isDry))
    const failed = files.filter(({ what }) => what === 'failed').length
    console.log(endInWords({ isDry, failed, isPoolLost: options.words.poolLost }))
    return isRefused || failed > 0 ? 1 : 0
  } finally {
    restoring?.remove()
  }
}

/** Says with a failure that nothing is put back, unless something is, or was not to be. */
async function orNothing<T>({ isDry }: Options, stateDirectory: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    if (isDry || cause instanceof UnflushedRecords) throw cause
    throw new Error(`nothing is put back in ${stateDirectory}`, { cause })
  }
}

/** Puts the records back, unless the comparison with the host refuses it; a dry run only says what would happen. */
async function putRecordsBack(
  restoring: Restoring,
  { file, isDry, words }: Options,
  { content, config }: { readonly content: BackupContent; readonly config: Config },
): Promise<{ readonly isRefused: boolean }> {
  const moved = readMovedSince(config.stateDirectory)
  const outlook = await outlookOf(restoring, config, { words, moved })
  print(aboutInWords(file, content, restoring.store.vms.ids().length))
  print(maintenanceInWords(restoring.maintenanceAfter()))
  print(outlookInWords(outlook))
  const refusals = refusalsInWords(outlook)
  for (const because of refusals)
    console.error(`vmhostd restore: nothing ${isDry ? 'would be' : 'is'} put back, because ${because}`)
  const isRefused = refusals.length > 0
  if (isRefused || isDry) return { isRefused }
  const kept = restoring.putBack(words.leaveOut, Date.now(), { userIdsOnHost: outlook.userIdsOnHost })
  // Before the files, so that the operator knows this whatever becomes of them.
  console.log(`The records are put back.${kept === undefined ? '' : ` The previous ones are in ${kept}.`}`)
  return { isRefused }
}

type End = { readonly isDry: boolean; readonly failed: number; readonly isPoolLost: boolean }

/** Returns what the operator does next. */
function endInWords({ isDry, failed, isPoolLost }: End): string {
  if (isDry) return '\nDry run: nothing was changed.'
  if (failed > 0)
    return `\nNext: see why ${failed === 1 ? 'a file is' : `${failed} files are`} not put back, and run this again before the daemon starts`
  return `\nNext: ${isPoolLost ? 'vmhostd setup --replace-pool, then ' : ''}systemctl start vmhostd`
}

const print = (lines: readonly string[]): void => {
  for (const line of lines) console.log(line)
}

/** Returns the configuration of the host, or that of the backup if the host has none. */
function configOf({ files }: BackupContent, path: string): Config {
  const kept = files.find((file) => file.path === path)
  if (existsSync(path) || kept === undefined) return loadConfig(path)
  return parseConfig(Buffer.from(kept.content).toString(), {
    path: `${path} of the backup`,
    hostname: hostname(),
  })
}

/** A store that never had a pool has no VM with anything on the host. */
async function outlookOf(
  { store }: Restoring,
  config: Config,
  { words, moved }: { readonly words: Words; readonly moved: MovedSince },
): Promise<Outlook> {
  const { poolId } = store
  if (poolId === undefined) return { vms: [], unsaid: [], moved: [], unsure: [], userIdsOnHost: [] }
  await checkPool(config.storage, poolId, { isLost: words.poolLost })
  return withRecoveryHost(config, poolId, (host) =>
    compareWithHost(store, host, { words, moved, nowMs: Date.now() }),
  )
}
