import { parseArgs } from 'node:util'
import { build } from './build.ts'
import { usageFault } from './usage-error.ts'

/** Takes the arguments after its name; resolves with the exit status. */
type Command = (args: readonly string[]) => Promise<number>

/** Commands are loaded when called, so that none loads the libraries of another. */
const commands = new Map<string, () => Promise<Command>>([
  ['serve', async () => (await import('./serve-command.ts')).serveCommand],
  ['setup', async () => (await import('./setup/setup.ts')).setupCommand],
  ['certificate', async () => (await import('./setup/certificate-command.ts')).certificateCommand],
  ['plan', async () => (await import('./admin-socket.ts')).planCommand],
  ['console', async () => (await import('./admin-socket.ts')).consoleCommand],
  ['doctor', async () => (await import('./doctor/doctor-command.ts')).doctorCommand],
  ['backup', async () => (await import('./recovery/backup-command.ts')).backupCommand],
  ['restore', async () => (await import('./recovery/restore-command.ts')).restoreCommand],
  ['recover', async () => (await import('./recovery/recover-command.ts')).recoverCommand],
  ['version', async () => versionCommand],
  ['--version', async () => versionCommand],
])

/** Runs the command that the arguments name; exit status 2 if they name none, or are not as its help says. */
export async function runCommand([name = '', ...rest]: readonly string[]): Promise<number> {
  const load = commands.get(name)
  const isHelp = ['help', '--help', '-h'].includes(name)
  if (load === undefined || isHelp) {
    const { renderOverview } = await import('./help/overview.ts')
    const overview = renderOverview()
    if (isHelp) console.log(overview)
    else console.error(name === '' ? overview : `vmhostd: there is no command ${name}\n\n${overview}`)
    return isHelp ? 0 : 2
  }
  const command = await load()
  try {
    return await command(rest)
  } catch (error) {
    const fault = usageFault(error)
    if (fault === undefined) throw error
    console.error(`vmhostd ${name}: ${fault}. Try: vmhostd ${name} --help`)
    return 2
  }
}

/** Returns exit status 1 if this build cannot keep consoles in the descriptor store. */
async function versionCommand(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { help: { type: 'boolean', short: 'h' } } })
  if (values.help === true) {
    const { renderHelp } = await import('./help/command-help.ts')
    const { versionHelp } = await import('./help/question-help.ts')
    console.log(renderHelp(versionHelp))
    return 0
  }
  const { descriptorStoreSupport } = await import('../host/systemd/sd-notify.ts')
  const support = descriptorStoreSupport()
  console.log(`vmhostd ${build.version}`)
  console.log(`commit ${build.commit}`)
  console.log(`node ${process.version}`)
  console.log(`descriptor_store=${support.supported ? 'supported' : `unsupported: ${support.because}`}`)
  return support.supported ? 0 : 1
}
