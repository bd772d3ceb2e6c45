import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { promisify } from 'node:util'
import { ready } from './controller.ts'
import { GUEST_IMAGES } from './guest.ts'
import { until } from './until.ts'

export { ready } from './controller.ts'

const execute = promisify(execFile)
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024
const DIST = '/src/dist'

/** Runs a program; resolves with its output, rejects with its error output. */
export async function sh(program: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await execute(program, args, { encoding: 'utf8', maxBuffer: OUTPUT_BYTES_MAX })
  return stdout
}

/** Returns a property of a unit, as `systemctl show` prints it. */
export const unitProperty = async (unit: string, property: string): Promise<string> =>
  (await sh('systemctl', 'show', '--value', `--property=${property}`, unit)).trim()

export const mainPid = (unit: string): Promise<string> => unitProperty(unit, 'MainPID')

/** Installs the newest package, and does nothing else. */
export async function installPackage(): Promise<void> {
  const [deb] = readdirSync(DIST).filter((name) => name.endsWith('.deb'))
  if (deb === undefined) throw new Error('there is no package: ./dev build')
  await sh('dpkg', '--install', `${DIST}/${deb}`)
}

/** Installs the newest package, sets the host up, and starts the daemon; safe to repeat. */
export async function installDaemon(): Promise<void> {
  await installPackage()
  if (!existsSync('/etc/vmhostd/config.toml'))
    await sh('vmhostd', 'setup', '--local-images-directory', GUEST_IMAGES)
  await sh('systemctl', 'start', 'vmhostd')
  await ready()
}

/** Installs the same package once more, as the next version. */
export async function upgradeDaemon(): Promise<void> {
  const folder = mkdtempSync('/tmp/upgrade-')
  await sh('sh', '-c', `dpkg-deb --raw-extract ${DIST}/*.deb ${folder}/tree`)
  await sh('sed', '-i', 's/^Version: .*/&+next/', `${folder}/tree/DEBIAN/control`)
  await sh('dpkg-deb', '--root-owner-group', '-Znone', '--build', `${folder}/tree`, `${folder}/next.deb`)
  await sh('dpkg', '--install', `${folder}/next.deb`)
  rmSync(folder, { recursive: true })
}

/** Kills the daemon, as a crash does, and waits until another one is ready. `meanwhile` runs right after the kill. */
export async function crashDaemon(meanwhile: () => unknown = () => {}): Promise<void> {
  const earlier = await mainPid('vmhostd')
  await sh('systemctl', 'kill', '--signal=KILL', 'vmhostd')
  await meanwhile()
  await anotherDaemon(earlier)
}

/** Waits until a daemon other than the one with this process id is ready. */
export async function anotherDaemon(earlier: string): Promise<void> {
  await until('another daemon runs', async () =>
    ['0', earlier].includes(await mainPid('vmhostd')) ? undefined : true,
  )
  await ready()
  // systemd waits longer after each crash, up to 15 s, until its count of restarts is reset.
  await sh('systemctl', 'reset-failed', 'vmhostd')
}
