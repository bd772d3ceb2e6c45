import { existsSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { hashInputs } from '../tools/hash.ts'
import { withLock } from '../tools/lock.ts'
import { cachePath } from '../tools/paths.ts'
import { publish } from '../tools/publish.ts'
import { step } from '../tools/step.ts'
import { aptAboveRoot } from './apt-above-root.ts'
import { useCached } from './state.ts'
import type { CachedRoot } from './root.ts'

/**
 * Further packages of the root's own distribution, for a lab that needs more than the daemon does. They are installed
 * once into a layer of their own above the cached root (overlayfs, kernel documentation),
 * so that no other lab sees them.
 */
export async function ensureLayer(cached: CachedRoot, packages: readonly string[]): Promise<string> {
  const key = hashInputs([import.meta.filename], [cached.key, ...packages])
  const folder = path.join(cachePath('layers'), key)
  if (!existsSync(folder)) {
    await withLock('layer', async () => {
      if (existsSync(folder)) return
      await step(`install ${packages.join(', ')} above the lab's root`, (log) =>
        publish(folder, async (building) => {
          const above = await aptAboveRoot({ cached, building, commands: INSTALL, args: packages, log })
          renameSync(above.changes, layerTree(building))
          rmSync(above.folder, { recursive: true })
        }),
      )
    })
  }
  useCached(folder)
  return folder
}

/** Files that are laid over the root of a lab, in the form that overlayfs wants. */
export const layerTree = (folder: string): string => path.join(folder, 'tree')

const INSTALL = `apt-get update
apt-get -y install "$@"
rm -rf "$root"/var/lib/apt/lists "$root"/var/cache/apt`
