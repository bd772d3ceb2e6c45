import { existsSync, readdirSync } from 'node:fs'
import { runChecked } from './process.ts'
import { step } from './step.ts'
import type { StepLog } from './step.ts'

/** A Debian package a tool needs on this machine, and the file whose presence proves that it is there. */
export interface Need {
  readonly name: string
  readonly probe: string
  readonly why: string
}

/** For tests only; the probe is the browser itself, without the wrapper that reads the machine's own flags. */
export const CHROMIUM: Need = {
  name: 'chromium',
  probe: '/usr/lib/chromium/chromium',
  why: "tests open the daemon's pages in a real browser",
}

/** For tests only. */
export const LINTIAN: Need = {
  name: 'lintian',
  probe: '/usr/bin/lintian',
  why: "Debian's checker looks at the package",
}

export const MANDOC: Need = {
  name: 'mandoc',
  probe: '/usr/bin/mandoc',
  why: 'its lint checks the man pages',
}

const APT = ['apt-get', '-y', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=300']
const LISTS = '/var/lib/apt/lists'

/** Returns why this user cannot have a package, or false if it is there or can be installed. */
export const wanting = ({ name, probe }: Need): string | false =>
  !existsSync(probe) && process.getuid?.() !== 0 && `${name} is not installed, and only root can install it`

/** Installs missing packages, and says which and why. */
export async function ensurePackages(needs: readonly Need[]): Promise<void> {
  const missing = needs.filter((need) => !existsSync(need.probe))
  if (missing.length === 0) return
  for (const need of missing) console.error(`  installing ${need.name}: ${need.why}`)
  if (process.getuid?.() !== 0) throw new Error('installing packages needs root')
  await step(`install ${missing.map((need) => need.name).join(', ')}`, (log) =>
    install(
      missing.map((need) => need.name),
      log,
    ),
  )
}

async function install(names: readonly string[], log: StepLog): Promise<void> {
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } }
  const installing = () => log.run([...APT, 'install', ...names], options)
  const hasLists = existsSync(LISTS) && readdirSync(LISTS).some((name) => name.includes('_Packages'))
  if (hasLists) {
    try {
      await installing()
      return
    } catch {
      log.write('\nold package lists, perhaps: fetching new ones\n')
    }
  }
  await log.run([...APT, 'update'], options)
  await installing()
}

/** Returns the mirror of this machine's own distribution, as apt knows it. */
export async function distributionMirror(origin: 'Debian' | 'Ubuntu'): Promise<string> {
  const known = await knownMirror(origin)
  if (known !== undefined) return known
  // Without package lists (container images come like that) apt does not know the origin of its archives.
  await step('fetch package lists', (log) => log.run([...APT, 'update']))
  const found = await knownMirror(origin)
  if (found === undefined) throw new Error(`apt on this machine is set up without a ${origin} archive`)
  return found
}

async function knownMirror(origin: string): Promise<string | undefined> {
  const format = '$(ORIGIN)|$(LABEL)|$(SITE)'
  const targets = await runChecked(['apt-get', 'indextargets', '--format', format, 'Created-By: Packages'])
  return targets
    .split('\n')
    .map((line) => line.split('|'))
    .find(([from, label]) => from === origin && label === origin)?.[2]
}
