import { loadConfig } from '../../config/config.ts'
import { backupHelp } from '../help/recovery-help.ts'
import { backupTarget } from '../../store/backup/backup-target.ts'
import { writeBackup } from '../../store/backup/write-backup.ts'
import { build } from '../build.ts'
import { operatorCommand } from '../operator-command.ts'
import { filesOfHost } from './kept-files.ts'

/** Runs `vmhostd backup`. */
export const backupCommand = operatorCommand({
  help: backupHelp,
  options: { replace: { type: 'boolean', default: false } },
  run: async ({ config: configPath, replace }, [file, ...more]) => {
    if (file === undefined || more.length > 0) return 'help'
    const config = loadConfig(configPath)
    const files = filesOfHost(configPath, config)
    const target = backupTarget(file, { stateDirectory: config.stateDirectory, files, replace })
    const about = { madeAtMs: Date.now(), version: build.version, hostId: config.host.id }
    writeBackup(config.stateDirectory, target, { about, files })
    console.log(`${target}: the records, and ${files.length} files of this host`)
    for (const { path } of files) console.log(`  ${path}`)
    return 0
  },
})
