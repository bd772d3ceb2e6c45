import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { CONFIG_PATH, loadConfig } from '../../config/config.ts'
import { errorChain } from '../../log/error-chain.ts'
import { renderHelp } from '../help/command-help.ts'
import { backupHelp } from '../help/recovery-help.ts'
import { writeBackup } from '../../store/backup/write-backup.ts'
import { build } from '../build.ts'
import { filesOfHost } from './kept-files.ts'

const HELP = renderHelp(backupHelp)

/** Runs `vmhostd backup`; returns the exit status. */
export async function backupCommand(args: readonly string[]): Promise<number> {
  const options = {
    config: { type: 'string', default: CONFIG_PATH },
    replace: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h' },
  } as const
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
  if (values.help === true) {
    console.log(HELP)
    return 0
  }
  const [file] = positionals
  if (file === undefined || positionals.length > 1) {
    console.error(HELP)
    return 2
  }
  try {
    if (!values.replace && existsSync(file))
      throw new Error(`${file} is there already: --replace replaces it`)
    const config = loadConfig(values.config)
    const files = filesOfHost(values.config, config)
    const about = { madeAtMs: Date.now(), version: build.version, hostId: config.host.id }
    writeBackup(config.stateDirectory, file, { about, files })
    console.log(`${file}: the records, and ${files.length} files of this host`)
    for (const { path } of files) console.log(`  ${path}`)
    return 0
  } catch (error) {
    console.error(`vmhostd backup: ${errorChain(error)}`)
    return 1
  }
}
