import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { distributionMirror, ensurePackages } from '../tools/apt.ts'
import { hashInputs } from '../tools/hash.ts'
import { withLock } from '../tools/lock.ts'
import { cachePath } from '../tools/paths.ts'
import { publish } from '../tools/publish.ts'
import { step } from '../tools/step.ts'
import type { StepLog } from '../tools/step.ts'
import { mmdebstrap } from './mmdebstrap.ts'
import { recipeForThisMachine } from './recipe.ts'
import type { Recipe } from './recipe.ts'
import { useCached } from './state.ts'

const INPUTS = ['recipe.ts', 'root.ts', 'mmdebstrap.ts', 'kernel-hook.ts'].map((name) =>
  path.join(import.meta.dirname, name),
)

const NEEDS = [
  { name: 'mmdebstrap', probe: '/usr/bin/mmdebstrap', why: "it builds the lab's root from Debian packages" },
  { name: 'systemd-container', probe: '/usr/bin/systemd-nspawn', why: 'it boots the lab' },
]

/** A finished root in the cache, which is never written again. */
export interface CachedRoot {
  readonly key: string
  readonly folder: string
  readonly root: string
  /** The guests' kernel packages, unpacked. */
  readonly kernel: string
}

/** The cached root for the current recipe, built first if it is not there. */
export async function ensureRoot(): Promise<CachedRoot> {
  await ensurePackages(NEEDS)
  const recipe = recipeForThisMachine()
  const key = hashInputs(INPUTS, [recipe.suite, process.arch])
  const folder = path.join(cachePath('roots'), key)
  if (!existsSync(folder)) {
    await withLock('root', async () => {
      if (!existsSync(folder)) await build(recipe, folder)
    })
  }
  useCached(folder)
  return { key, folder, root: path.join(folder, 'root'), kernel: path.join(folder, 'kernel') }
}

async function build(recipe: Recipe, folder: string): Promise<void> {
  const mirror = await distributionMirror(recipe.origin)
  const name = `build the lab's root (${recipe.origin} ${recipe.suite}, ${recipe.packages.length} packages)`
  await step(name, async (log) => {
    await publish(folder, async (building) => {
      const root = path.join(building, 'root')
      await bootstrap({ recipe, mirror, root, log })
      settle(recipe, root)
      renameSync(path.join(root, 'opt/guest-kernel'), path.join(building, 'kernel'))
    })
  })
}

interface Bootstrap {
  recipe: Recipe
  mirror: string
  root: string
  log: StepLog
}

async function bootstrap({ recipe, mirror, root, log }: Bootstrap): Promise<void> {
  const hook = path.join(import.meta.dirname, 'kernel-hook.ts')
  const excluded = ['doc', 'man', 'locale', 'info'].map(
    (kind) => `--dpkgopt=path-exclude=/usr/share/${kind}/*`,
  )
  const args = [
    '--variant=apt',
    `--components=${recipe.components}`,
    `--include=${recipe.packages.join(',')}`,
    '--aptopt=Apt::Install-Recommends "false"',
    // A root that is thrown away when its build is interrupted needs no syncing after every package.
    '--dpkgopt=force-unsafe-io',
    ...excluded,
    `--customize-hook=${process.execPath} ${hook} ${recipe.kernelPackage} "$1"`,
    recipe.suite,
    root,
    mirror,
  ]
  await mmdebstrap(args, log)
}

/** Turns a fresh root into a lab's root: nothing that waits, nothing that starts by itself. */
function settle(recipe: Recipe, root: string): void {
  for (const unit of recipe.masked) symlinkSync('/dev/null', path.join(root, 'etc/systemd/system', unit))
  const journal = path.join(root, 'etc/systemd/journald.conf.d')
  mkdirSync(journal)
  // A test that reads the journal must never meet a suppressed line.
  writeFileSync(path.join(journal, 'lab.conf'), '[Journal]\nRateLimitIntervalSec=0\nRuntimeMaxUse=256M\n')
  rmSync(path.join(root, 'etc/hostname'), { force: true })
  rmSync(path.join(root, 'etc/resolv.conf'), { force: true })
  writeFileSync(path.join(root, 'etc/machine-id'), '')
  for (const place of ['src', 'srv/guest']) mkdirSync(path.join(root, place), { recursive: true })
}
