import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { hashInputs } from '../tools/hash.ts'
import { withLock } from '../tools/lock.ts'
import { cachePath } from '../tools/paths.ts'
import { publish } from '../tools/publish.ts'
import { step } from '../tools/step.ts'
import type { StepLog } from '../tools/step.ts'
import { useCached } from './state.ts'
import type { CachedRoot } from './root.ts'

/**
 * Further packages of the root's own distribution, for a lab that needs more than the daemon does. They are installed
 * once into a layer of their own above the cached root (overlayfs, kernel documentation), so that no other lab sees them.
 */
export async function ensureLayer(cached: CachedRoot, packages: readonly string[]): Promise<string> {
  const key = hashInputs([import.meta.filename], [cached.key, ...packages])
  const folder = path.join(cachePath('layers'), key)
  if (!existsSync(folder)) {
    await withLock('layer', async () => {
      if (existsSync(folder)) return
      await step(`install ${packages.join(', ')} above the lab's root`, (log) =>
        publish(folder, (building) => build({ cached, packages, building, log })),
      )
    })
  }
  useCached(folder)
  return folder
}

/** Files that are laid over the root of a lab, in the form that overlayfs wants. */
export const layerTree = (folder: string): string => path.join(folder, 'tree')

type Building = {
  readonly cached: CachedRoot
  readonly packages: readonly string[]
  readonly building: string
  readonly log: StepLog
}

/**
 * This machine's apt works on the root, for it reaches the archive, and dpkg runs inside (apt.conf(5),
 * DPkg::Chroot-Directory). Mounted in a namespace of that one command: nothing stays mounted however it ends.
 */
const INSTALL = `set -eu
options=$1 root=$2; shift 2
mount -t overlay -o "$options" vmhostd-lab-layer "$root"
apt-get update
apt-get -y install "$@"
rm -rf "$root"/var/lib/apt/lists "$root"/var/cache/apt`

async function build({ cached, packages, building, log }: Building): Promise<void> {
  const place = (name: string) => path.join(building, name)
  const [upper, work, root, config] = [place('upper'), place('work'), place('root'), place('apt.conf')]
  for (const folder of [upper, work, root]) mkdirSync(folder)
  const lines = [
    `Dir "${root}";`,
    `DPkg::Chroot-Directory "${root}";`,
    // A layer that is thrown away when its build is interrupted needs no syncing after every package.
    'DPkg::Options:: "--force-unsafe-io";',
    'APT::Install-Recommends "false";',
    'APT::Sandbox::User "root";',
  ]
  writeFileSync(config, `${lines.join('\n')}\n`)
  const options = `lowerdir=${cached.root},upperdir=${upper},workdir=${work}`
  const env = {
    ...process.env,
    // sbin is missing from the PATH of some logins, and dpkg refuses to work without it.
    PATH: `/usr/sbin:/sbin:${process.env['PATH']}`,
    APT_CONFIG: config,
    DEBIAN_FRONTEND: 'noninteractive',
    SYSTEMD_OFFLINE: '1',
  }
  const argv = ['unshare', '--mount', '--propagation=private', 'sh', '-c', INSTALL, 'sh', options, root]
  await log.run([...argv, ...packages], { env })
  for (const leftover of [work, root, config]) rmSync(leftover, { recursive: true })
  renameSync(upper, layerTree(building))
}
