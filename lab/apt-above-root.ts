import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { StepLog } from '../tools/step.ts'
import type { CachedRoot } from './root.ts'

export type AptAboveRoot = {
  readonly cached: CachedRoot
  readonly building: string
  /** Shell commands. `$root` is the root that apt-get changes. */
  readonly commands: string
  readonly args: readonly string[]
  readonly log: StepLog
}

/** Changes that apt-get made, in the form of overlayfs, and the folder with all that was needed for them. */
export type AboveRoot = { readonly folder: string; readonly changes: string }

/** Mounts in a namespace of that one command: nothing stays mounted however it ends. */
const ABOVE_ROOT = `set -eu
options=$1 root=$2; shift 2
mount -t overlay -o "$options" vmhostd-lab-layer "$root"
`

/**
 * Runs apt-get on a throw-away layer above the cached root. This machine's apt works on it, because it reaches the
 * archive, and dpkg runs inside (apt.conf(5), DPkg::Chroot-Directory).
 */
export async function aptAboveRoot({
  cached,
  building,
  commands,
  args,
  log,
}: AptAboveRoot): Promise<AboveRoot> {
  const folder = path.join(building, 'above')
  const [changes, work, root, config] = ['changes', 'work', 'root', 'apt.conf'].map((name) =>
    path.join(folder, name),
  ) as [string, string, string, string]
  for (const place of [changes, work, root]) mkdirSync(place, { recursive: true })
  const lines = [
    `Dir "${root}";`,
    `DPkg::Chroot-Directory "${root}";`,
    // A layer that is thrown away when its build is interrupted needs no syncing after every package.
    'DPkg::Options:: "--force-unsafe-io";',
    'APT::Install-Recommends "false";',
    'APT::Sandbox::User "root";',
  ]
  writeFileSync(config, `${lines.join('\n')}\n`)
  const options = `lowerdir=${cached.root},upperdir=${changes},workdir=${work}`
  const env = {
    ...process.env,
    // sbin is missing from the PATH of some logins, and dpkg refuses to work without it.
    PATH: `/usr/sbin:/sbin:${process.env['PATH']}`,
    APT_CONFIG: config,
    DEBIAN_FRONTEND: 'noninteractive',
    SYSTEMD_OFFLINE: '1',
  }
  const argv = [
    'unshare',
    '--mount',
    '--propagation=private',
    'sh',
    '-c',
    ABOVE_ROOT + commands,
    'sh',
    options,
    root,
  ]
  await log.run([...argv, ...args], { env })
  return { folder, changes }
}
