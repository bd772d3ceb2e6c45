import { build } from './build.ts'

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

const usage = `vmhostd runs microVMs on this host and serves an HTTP API over mutual TLS.

Usage: vmhostd COMMAND [OPTIONS]

Commands:
  setup          make directories, mark the storage pool, create certificates and a configuration
  serve          run the daemon in the foreground; systemd does this: systemctl enable --now vmhostd
  certificate renew
                 replace the certificates of this host that end soon
  plan VM        print what the running daemon would do next for a VM, and why
  console VM     print the newest output of a VM's serial console
  doctor         check this host before and after the set-up, and say what to do about each finding
  backup FILE    write the records of all VMs into a file, with the configuration and keys of this host
  restore FILE   put them back, and say before what becomes of each VM
  recover [VM]   list the disks whose records are gone, and give a VM its record again
  version        print version, commit, Node, and whether this build can use systemd's descriptor store

A new host:  vmhostd setup && systemctl enable --now vmhostd
Each command answers --help.`

/** Runs the command that the arguments name; exit status 2 if they name none. */
export async function runCommand([name = '', ...rest]: readonly string[]): Promise<number> {
  if (['help', '--help', '-h'].includes(name)) {
    console.log(usage)
    return 0
  }
  const load = commands.get(name)
  if (load === undefined) {
    console.error(name === '' ? usage : `vmhostd: there is no command ${name}\n\n${usage}`)
    return 2
  }
  const command = await load()
  return command(rest)
}

/** Returns exit status 1 if this build cannot keep consoles in the descriptor store. */
async function versionCommand(): Promise<number> {
  const { descriptorStoreSupport } = await import('../host/systemd/descriptor-store.ts')
  const support = descriptorStoreSupport()
  console.log(`vmhostd ${build.version}`)
  console.log(`commit ${build.commit}`)
  console.log(`node ${process.version}`)
  console.log(`descriptor_store=${support.supported ? 'supported' : `unsupported: ${support.because}`}`)
  return support.supported ? 0 : 1
}
